// Measuring on the live page how faithful weights are: it goes on while the reader is elsewhere, and can be ended.
import { useEffect, useState } from "preact/hooks";
import { worded } from "./look";
import type { Live, LoadedTrace } from "./types";
import { askedOf, isChanged, sessionOf } from "./what_if";

interface Measurement {
  done: number;
  of: number;
  problem: string | null;
  running: boolean;
  end: AbortController;
  /** whoever shows it */
  tell: () => void;
}

const measurements = new WeakMap<LoadedTrace, Measurement>();

async function measure(live: Live, trace: LoadedTrace, tell: () => void): Promise<void> {
  const now: Measurement = { done: 0, of: 0, problem: null, running: true, end: new AbortController(), tell };
  measurements.set(trace, now);
  tell();
  const told = (done: number, of: number) => {
    Object.assign(now, { done, of });
    now.tell();
  };
  try {
    // The measurement belongs to the trace: views find it there, as in a saved page.
    trace.about.faithfulness = await live.measure(trace, told, now.end.signal);
  } catch (error) {
    if (!now.end.signal.aborted) now.problem = worded(error);
  }
  now.running = false;
  now.tell();
}

export interface MeasuringProps {
  live: Live;
  trace: LoadedTrace;
  /** after it was measured */
  then(): void;
}

export function Measuring({ live, trace, then }: MeasuringProps) {
  const [, draw] = useState({});
  const tell = () => (trace.about.faithfulness ? then() : draw({}));
  const now = measurements.get(trace);
  if (now) now.tell = tell;
  useEffect(() => () => void (now && (now.tell = () => undefined)), [now]);
  const reason = isChanged(sessionOf(trace))
    ? "What is measured is what the model does by itself: take your changes back in Steps first."
    : live.info.measures === false
      ? "The outputs of this model have no probability to be measured by."
      : askedOf(trace) === null
        ? "What this model read is not text, so it cannot be asked again from here."
        : null;
  if (now?.running)
    return (
      <div class="measuring">
        <progress max={now.of || 1} value={now.done} aria-label="measuring" />
        <span role="status">{now.of ? `asked ${now.done} of ${now.of} times` : "asking the model …"}</span>
        <button class="small" onClick={() => now.end.abort()}>
          cancel
        </button>
      </div>
    );
  return (
    <div class="measuring">
      <button disabled={reason !== null} onClick={() => void measure(live, trace, tell)}>
        measure it now
      </button>
      <span class="hint">{reason ?? "The model is asked some dozens of times, others in between."}</span>
      {now?.problem && (
        <p class="problem" role="alert">
          {now.problem}
        </p>
      )}
    </div>
  );
}
