// The moment in words, the output as buttons, and the way through its steps.
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons";
import { isSpecial, runsLeft, short } from "./labels";
import { isGiven } from "./output_kind";
import { Picker } from "./parts";
import { Readout } from "./readout";
import { SPEEDS, speedOf, stepsOf, type Steps } from "./state";
import type { LoadedTrace, PageTrace, Part, State, ViewProps } from "./types";

const PACE = 1200; // milliseconds a step when it plays: four stages of 250, and a breath
const WINDOW = 200; // tokens on either side of the current one

interface FooterProps {
  trace: LoadedTrace;
  state: State;
  set: ViewProps["set"];
  parts: Part[];
  /** whether the view in front follows the steps */
  follows: boolean;
  playing: boolean;
  toggle(): void;
  stop(): void;
}

/** The axis along which the model wrote, one position a step; null when it wrote nothing. */
export function writtenAxis(trace: PageTrace): string | null {
  const across = trace.maps.filter(
    (map) => map.query !== map.key && map.queries > 1 && trace.axes[map.query]?.kind === "tokens",
  );
  const axis = trace.outputs?.axis ?? across.at(-1)?.query ?? null;
  return axis !== null && (trace.axes[axis]?.labels.length ?? 0) > 1 ? axis : null;
}

export function Footer({ trace, state, set, parts, follows, ...way }: FooterProps) {
  const steps = stepsOf(trace, state);
  const scrubs = follows && steps.axis !== null && steps.axis === writtenAxis(trace) && steps.count > 1;
  return (
    <footer class="footer">
      <Readout parts={parts} />
      {scrubs && <Scrubber trace={trace} state={state} set={set} steps={steps} {...way} />}
    </footer>
  );
}

function Scrubber({
  trace,
  state,
  set,
  steps,
  playing,
  toggle,
  stop,
}: Omit<FooterProps, "parts" | "follows"> & { steps: Steps }) {
  const { first, count } = steps;
  const last = first + count - 1;
  const speed = speedOf(state);
  const to = (step: number) => set({ step: Math.max(first, Math.min(last, step)) });
  useEffect(() => {
    if (!playing) return;
    if (state.step >= last) return stop();
    const timer = setTimeout(() => to(state.step + 1), PACE / speed);
    return () => clearTimeout(timer);
  }, [playing, state.step, last, speed]);
  return (
    <div class="scrubber">
      <Tokens trace={trace} state={state} steps={steps} to={to} />
      <div class="transport">
        <button aria-label="first step" disabled={state.step <= first} onClick={() => to(first)}>
          <Icon name="first" />
        </button>
        <button aria-label="step back" disabled={state.step <= first} onClick={() => to(state.step - 1)}>
          <Icon name="back" />
        </button>
        <button aria-label={playing ? "pause" : "play"} onClick={toggle}>
          <Icon name={playing ? "pause" : "play"} />
        </button>
        <button aria-label="next step" disabled={state.step >= last} onClick={() => to(state.step + 1)}>
          <Icon name="next" />
        </button>
        <button aria-label="last step" disabled={state.step >= last} onClick={() => to(last)}>
          <Icon name="last" />
        </button>
        <Picker
          label="speed"
          value={String(speed)}
          choices={SPEEDS.map((value) => ({ value, label: `${value}×` }))}
          pick={(value) => set({ more: { speed: Number(value) } })}
        />
        <span class="count">{`step ${state.step - first + 1} of ${count}`}</span>
      </div>
    </div>
  );
}

function Tokens({
  trace,
  state,
  steps,
  to,
}: {
  trace: LoadedTrace;
  state: State;
  steps: Steps;
  to(step: number): void;
}) {
  const current = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const button = current.current;
    const row = button?.parentElement;
    if (!button || !row) return;
    // Only the row of tokens scrolls: scrollIntoView would move the page under the reader's hand.
    row.scrollLeft = button.offsetLeft - row.offsetLeft - row.clientWidth / 2 + button.offsetWidth / 2;
  }, [state.step]);
  const axis = trace.axis(steps.axis ?? "");
  const from = Math.max(steps.first, state.step - WINDOW);
  const until = Math.min(steps.first + steps.count, state.step + WINDOW + 1);
  const shown = Array.from({ length: Math.max(0, until - from) }, (_, i) => from + i);
  return (
    <div
      class="tokens"
      role="group"
      aria-label="output, one button a step"
      dir={runsLeft(axis.labels) ? "rtl" : undefined}
    >
      {from > steps.first && <span class="more">…</span>}
      {shown.map((step) => {
        const label = axis.labels[step] ?? String(step);
        const given = isGiven(trace.about, step);
        const classes = given || isSpecial(axis, step) ? "token-button special" : "token-button";
        return (
          <button
            key={step}
            ref={step === state.step ? current : null}
            class={classes}
            dir="auto"
            title={given ? "given, not written" : undefined}
            aria-current={step === state.step ? "step" : undefined}
            onClick={() => to(step)}
          >
            {short(label, 24)}
          </button>
        );
      })}
      {until < steps.first + steps.count && <span class="more">…</span>}
    </div>
  );
}
