// What was read: text to change where a model answers, text to read in a saved page; and the menu of traces.
import { useEffect, useState } from "preact/hooks";
import { short } from "./labels";
import { worded } from "./look";
import { Picker } from "./parts";
import { plainText } from "./readout";
import type { Live, LoadedTrace, State, ViewProps } from "./types";
import { saidOf, sessionOf } from "./what_if";

interface InputProps {
  traces: LoadedTrace[];
  trace: LoadedTrace | undefined;
  state: State;
  set: ViewProps["set"];
  live: Live | null;
}

export function InputLine({ traces, trace, state, set, live }: InputProps) {
  const input = typeof trace?.about.input === "string" ? trace.about.input : "";
  return (
    <section class="input" aria-label="input">
      {live ? <Asking live={live} input={input} state={state} set={set} /> : <Read trace={trace} input={input} />}
      {traces.length > 1 && (
        <Picker
          label="example"
          value={String(state.trace)}
          choices={traces.map((each, i) => ({ value: String(i), label: short(each.name || `example ${i + 1}`, 48) }))}
          pick={(chosen) => set({ trace: Number(chosen) })}
        />
      )}
      {/* Steps shows what was changed where it was changed; elsewhere it must not pass for the model's own. */}
      {state.view && state.view !== "steps" && <Changed trace={trace} />}
      {notesOf(trace).map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
    </section>
  );
}

function Changed({ trace }: { trace: LoadedTrace | undefined }) {
  if (!trace) return null;
  const { changes, prefix } = sessionOf(trace);
  const said = changes.map((change) => {
    const key = trace.maps.find((map) => map.site === change.edit.site)?.key ?? "";
    return plainText(saidOf(change, trace.axis(key)));
  });
  if (prefix !== null) said.push(`begins with ${short(prefix, 40)}`);
  return said.length ? <p class="note changed">{`Changed by you: ${said.join(", ")}. Steps takes it back.`}</p> : null;
}

/** What was left out of the page, in words; what is said of several places is said once. */
function notesOf(trace: LoadedTrace | undefined): string[] {
  const notes = trace?.about.notes;
  const told = Array.isArray(notes) ? notes.filter((note): note is string => typeof note === "string") : [];
  return [...new Set(told)].slice(0, 5);
}

function Read({ trace, input }: { trace: LoadedTrace | undefined; input: string }) {
  const output = trace?.about.output;
  if (!input && typeof output !== "string") return null;
  return (
    <p class="read" tabIndex={input.length > 180 || input.includes("\n") ? 0 : undefined}>
      <bdi dir="auto">{input}</bdi>
      {typeof output === "string" && (
        <>
          <span class="arrow" aria-hidden="true">
            {" → "}
          </span>
          <span class="unseen">became</span>
          <bdi dir="auto" class="output">
            {output || "∅"}
          </bdi>
        </>
      )}
    </p>
  );
}

/** Asks the model, and says whether it is at work and what went wrong. */
function useRun(live: Live, set: InputProps["set"]) {
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

type AskingProps = { live: Live; input: string } & Pick<InputProps, "state" | "set">;

function Asking({ live, input, state, set }: AskingProps) {
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
