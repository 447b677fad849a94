// The line that asks a model: text, examples, and what went wrong.
import { useEffect, useState } from "preact/hooks";
import { askedIn, recorded } from "./asked";
import { AskingFile, fileKind } from "./asking_file";
import { short } from "./labels";
import { worded } from "./look";
import { Picker } from "./parts";
import type { Live, LoadedTrace, State, ViewProps } from "./types";
import { sessionOf } from "./what_if";

export interface AskingProps {
  live: Live;
  /** what the page shows; undefined: nothing yet */
  trace: LoadedTrace | undefined;
  input: string;
  state: State;
  /** what the address named last */
  named(): State;
  set: ViewProps["set"];
  /** no answer came: what is shown is not what was asked */
  fail(failed: boolean): void;
}

/** Asks the model, and says whether it is at work and what went wrong. */
export function useRun({ live, trace, state, named, set, fail }: AskingProps) {
  const [busy, work] = useState(false);
  const [problem, tell] = useState<string | null>(null);
  const failed = (message: string) => {
    tell(message);
    fail(true);
  };
  const during = async (asked: Promise<void>) => {
    work(true);
    tell(null);
    try {
      await asked;
      fail(false);
    } catch (error) {
      failed(worded(error));
    }
    work(false);
  };
  // An address that was opened, gone back to or typed may ask something else than what is shown.
  const asked = askedIn(state, state.trace);
  const wanted = JSON.stringify(recorded(0, asked));
  const shown = trace ? JSON.stringify(recorded(0, sessionOf(trace))) : "{}";
  useEffect(() => {
    if (wanted === shown) return;
    const { site, head, step, key } = named();
    void during(live.restore(asked).then(() => set({ site, head, step, key })));
  }, [wanted, state.trace]);
  const forget = () => {
    tell(null);
    fail(false);
  };
  return {
    busy,
    problem,
    forget,
    fail: failed,
    ask: (asking: () => Promise<void>) => (busy ? Promise.resolve() : during(asking())),
    run: (text: string) => void (busy || !text.trim() || during(live.run(text))),
  };
}

export function Asking(props: AskingProps) {
  return fileKind(props.live.info.input) ? <AskingFile {...props} /> : <AskingText {...props} />;
}

function AskingText(props: AskingProps) {
  const { live, trace, input } = props;
  const [text, write] = useState(input);
  const { busy, problem, run, forget } = useRun(props);
  useEffect(() => write(input), [input, trace]);
  const submit = (event: Event) => {
    event.preventDefault();
    run(text);
  };
  const entered = (event: KeyboardEvent) =>
    event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event);
  const take = (example: string) => {
    write(example);
    run(example);
  };
  const back = () => {
    write(input);
    forget();
  };
  const examples = live.info.examples ?? [];
  return (
    <form class="asking" onSubmit={submit}>
      <textarea
        aria-label="input"
        dir="auto"
        rows={Math.min(4, Math.max(1, Math.ceil(text.length / 80)))}
        value={text}
        placeholder="write something for the model to read"
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={entered}
      />
      <button type="submit" disabled={busy || !text.trim()}>
        {busy ? "running …" : "run"}
      </button>
      {examples.length > 0 && (
        <Picker
          label="examples"
          value=""
          choices={[{ value: "", label: "choose …" }, ...examples.map((value) => ({ value, label: short(value, 40) }))]}
          pick={(value) => value && take(value)}
        />
      )}
      <Problem problem={problem} back={trace && back} />
    </form>
  );
}

export function Problem({ problem, back }: { problem: string | null; back?: () => void }) {
  if (!problem) return null;
  return (
    <p class="problem" role="alert">
      {problem}
      {back && (
        <button type="button" class="quiet" onClick={back}>
          back to the last answer
        </button>
      )}
    </p>
  );
}
