// Asking a running model. Its answers are traces like any other.
import { blocksFrom, checked, loadTrace, PageError } from "./data";
import type { Answer, Live, LiveInfo, LoadedTrace, Question } from "./types";

interface Reply {
  predictions?: {
    output?: unknown;
    score?: number | null;
    notes?: string[];
    page?: { header: unknown; blocks: string[] } | null;
  }[];
  error?: { message?: string; field?: string | null };
}

type Shown = (trace: LoadedTrace, place: number, fresh: boolean) => void;

export function liveOf(info: LiveInfo, place: () => number, shown: Shown): Live {
  const ask = async (question: Question): Promise<Answer> => {
    const { input, edits = [], prefix = null, search = null } = question;
    const reply = await post(`${info.api}/models/${encodeURIComponent(info.model)}/predict`, {
      inputs: [input],
      trace: true,
      edits,
      prefix,
      search,
    });
    const made = reply.predictions?.[0];
    if (!made) throw new PageError("The model answered with nothing. Try again.");
    const page = made.page ? checked(made.page.header) : null;
    const found = page?.traces[0];
    const trace = found && made.page ? loadTrace(found, blocksFrom(made.page.blocks)) : null;
    return {
      output: typeof made.output === "string" ? made.output : JSON.stringify(made.output),
      score: made.score ?? null,
      notes: made.notes ?? [],
      trace,
    };
  };
  return {
    info,
    place,
    ask,
    async run(question) {
      const at = place();
      const { trace } = await ask(question);
      if (!trace) throw new PageError("The model answered without a trace, so there is nothing to show.");
      shown(trace, at, true);
    },
    show: (trace, at) => shown(trace, at, false),
  };
}

async function post(address: string, body: unknown): Promise<Reply> {
  let answer: Response;
  try {
    answer = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new PageError("The model does not answer: is `saccade view --serve` still running?");
  }
  let reply: Reply;
  try {
    reply = (await answer.json()) as Reply;
  } catch {
    throw new PageError(`The server answered ${answer.status} and no words. Look where it runs.`);
  }
  if (!answer.ok || reply.error) throw new PageError(reply.error?.message ?? `The server answered ${answer.status}.`);
  return reply;
}
