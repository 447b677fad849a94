// Asking a running model. Its answers are traces like any other.
import { recorded } from "./asked";
import { blocksFrom, checked, loadTrace, PageError } from "./data";
import type { EditJson, Faithfulness, Live, LiveInfo, LoadedTrace, State } from "./types";
import { askedOf, isChanged, remember, type Session } from "./what_if";

interface Reply {
  predictions?: { page?: { header: unknown; blocks: string[] } | null }[];
  error?: { message?: string; field?: string | null };
}

interface Question {
  inputs: unknown[];
  edits?: EditJson[];
  prefix?: string | null;
}

/** How an answer is shown: at its place, as a new input or the same under a change, with what the address says of it. */
export type Show = (trace: LoadedTrace, place: number, fresh: boolean, more: State["more"]) => void;

const KEPT = 16; // answers: going back to one asks nobody

/** `given` are the page's own traces, `place` that of the trace in front. */
export function liveOf(info: LiveInfo, given: LoadedTrace[], place: () => number, shown: Show): Live {
  const answers = new Map<string, LoadedTrace>();
  // What the address cannot name: the answers to files, by their places.
  const files = new Map<number, LoadedTrace>();
  const ask = async (question: Question, again = false): Promise<LoadedTrace> => {
    const name = JSON.stringify(question);
    const known = answers.get(name);
    if (known && !again) return known;
    const trace = await answerOf(info, question);
    answers.set(name, trace);
    if (answers.size > KEPT) answers.delete(answers.keys().next().value!);
    return trace;
  };
  // An answer belongs where it was asked, wherever the reader went meanwhile.
  const show = (trace: LoadedTrace, at: number, session: Session, fresh = false) => {
    remember(trace, session);
    shown(trace, at, fresh, recorded(at, session));
  };
  const apply = async (session: Session, at = place()) => {
    const { base, changes, prefix } = session;
    if (!isChanged(session)) return show(base, at, session);
    const edits = changes.map((change) => change.edit);
    show(await ask({ inputs: [askedOf(base)], edits, prefix }), at, session);
  };
  return {
    info,
    measure: (trace, told, signal) => measured(info, askedOf(trace), told, signal),
    apply: (session) => apply(session),
    async run(input, name) {
      const at = place();
      const text = typeof input === "string";
      const base = text ? await ask({ inputs: [input] }, true) : await answerOf(info, { inputs: [input] });
      if (!text) {
        base.about.asked = input;
        base.about.input = name;
        files.set(at, base);
      }
      show(base, at, { base, input: text ? input : null, changes: [], prefix: null, before: null }, true);
    },
    async restore(asked) {
      const at = place();
      const base = asked.input === null ? (files.get(at) ?? given[at]) : await ask({ inputs: [asked.input] });
      if (base) await apply({ ...asked, base, before: null }, at);
    },
  };
}

async function answerOf(info: LiveInfo, question: Question): Promise<LoadedTrace> {
  const reply = await replyOf(await post(addressOf(info, "predict"), { trace: true, ...question }));
  const made = reply.predictions?.[0];
  if (!made) throw new PageError("The model answered with nothing. Try again.");
  const trace = made.page ? checked(made.page.header).traces[0] : null;
  if (!trace || !made.page) throw new PageError("The model answered without a trace, so there is nothing to show.");
  return loadTrace(trace, blocksFrom(made.page.blocks));
}

/** Each line of the answer says how far it is; the last holds the curves, or what went wrong. */
async function measured(info: LiveInfo, input: unknown, told: Told, signal: AbortSignal): Promise<Faithfulness> {
  const answer = await post(addressOf(info, "truth"), { inputs: [input] }, signal);
  if (!answer.ok || !answer.body) await replyOf(answer);
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new PageError("The server ended before the measurement did. Look where it runs.");
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines.map((each) => JSON.parse(each) as Line)) {
      if (line.error) throw new PageError(line.error.message ?? "The measurement failed.");
      if (line.faithfulness) return line.faithfulness;
      told(line.done ?? 0, line.of ?? 0);
    }
  }
}

type Told = (done: number, of: number) => void;

interface Line extends Pick<Reply, "error"> {
  done?: number;
  of?: number;
  faithfulness?: Faithfulness;
}

function addressOf(info: LiveInfo, what: string): string {
  return `${info.api}/models/${encodeURIComponent(info.model)}/${what}`;
}

async function post(address: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  try {
    return await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new PageError("The model does not answer: is `saccade view --serve` still running?");
  }
}

async function replyOf(answer: Response): Promise<Reply> {
  let reply: Reply;
  try {
    reply = (await answer.json()) as Reply;
  } catch {
    throw new PageError(`The server answered ${answer.status} and no words. Look where it runs.`);
  }
  if (!answer.ok || reply.error) throw new PageError(reply.error?.message ?? `The server answered ${answer.status}.`);
  return reply;
}
