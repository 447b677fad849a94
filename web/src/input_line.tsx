// What was read: text to change where a model answers, text to read in a saved page; and the menu of traces.
import { carried } from "./carried";
import { short } from "./labels";
import { Picker } from "./parts";
import { plainText } from "./readout";
import type { AskingProps } from "./asking";
import type { Live, LoadedTrace } from "./types";
import { saidOf, sessionOf } from "./what_if";

type InputProps = Omit<AskingProps, "input" | "live"> & {
  traces: LoadedTrace[];
  live: Live | null;
  /** whether there is no answer to what was asked last */
  failed: boolean;
};

export function InputLine({ traces, trace, state, set, live, failed, ...asking }: InputProps) {
  const { typed, input: read } = trace?.about ?? {};
  const input = live && typed ? typed : typeof read === "string" ? read : "";
  return (
    <section class="input" aria-label="input">
      {live && carried.asking ? (
        <carried.asking.Asking {...{ live, trace, input, state, set, ...asking }} />
      ) : (
        <Read trace={trace} input={input} />
      )}
      {traces.length > 1 && (
        <Picker
          label="example"
          value={String(state.trace)}
          choices={traces.map((each, i) => ({ value: String(i), label: short(each.name || `example ${i + 1}`, 48) }))}
          pick={(chosen) => set({ trace: Number(chosen) })}
        />
      )}
      {/* Steps shows what was changed where it was changed; elsewhere it must not pass for the model's own. */}
      {state.view && state.view !== "steps" && !failed && <Changed trace={trace} />}
      {notesOf(failed ? undefined : trace).map((note) => (
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
  const said = changes.map((change) => plainText(saidOf(change, trace)));
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
