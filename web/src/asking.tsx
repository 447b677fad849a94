// The line that asks a model: text, examples, and what went wrong.
import { useEffect, useState } from "preact/hooks";
import { short } from "./labels";
import { worded } from "./look";
import { Picker } from "./parts";
import type { Live, ViewProps } from "./types";

/** Asks the model, and says whether it is at work and what went wrong. */
function useRun(live: Live, set: ViewProps["set"]) {
  const [busy, work] = useState(false);
  const [problem, tell] = useState<string | null>(null);
  const run = async (asked: string) => {
    if (busy || !asked.trim()) return;
    work(true);
    tell(null);
    try {
      await live.run({ input: asked });
      // The address brings a reader back to what was asked, not only to where they looked.
      set({ more: { input: asked } });
    } catch (error) {
      tell(worded(error));
    }
    work(false);
  };
  return { busy, problem, run };
}

type AskingProps = { live: Live; input: string } & Pick<ViewProps, "state" | "set">;

export function Asking({ live, input, state, set }: AskingProps) {
  const [text, write] = useState(input);
  const { busy, problem, run } = useRun(live, set);
  useEffect(() => write(input), [input]);
  useEffect(() => {
    const asked = state.more.input;
    const { step, key } = state;
    if (typeof asked === "string" && asked !== input) void run(asked).then(() => set({ step, key }));
  }, []);
  const submit = (event: Event) => {
    event.preventDefault();
    void run(text);
  };
  const entered = (event: KeyboardEvent) =>
    event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event);
  const take = (example: string) => {
    write(example);
    void run(example);
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
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}
