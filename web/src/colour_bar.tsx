// The colour bar beside a picture, and the choice of its scale.
import { useRef } from "preact/hooks";
import { useDrawn } from "./drawn";
import { Picker } from "./parts";
import { type Scale, SCALES, type ScaleName } from "./scale";
import { useColours } from "./theme";
import type { ViewProps } from "./types";

const [LONG, HIGH, STEPS] = [180, 10, 60];

export function ColourBar({ scale, title = "weight" }: { scale: Pick<Scale, "ticks">; title?: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours();
  useDrawn(
    canvas,
    LONG,
    HIGH,
    (pen) => {
      for (let i = 0; i < STEPS; i++)
        pen.rect((i * LONG) / STEPS, 0, LONG / STEPS + (i < STEPS - 1 ? 0.5 : 0), HIGH, colours.shade(i / (STEPS - 1)));
      pen.frame(0.5, 0.5, LONG - 1, HIGH - 1, colours.line, 1);
    },
    [colours],
  );
  const told = scale.ticks.map(({ label }) => label).join(", ");
  return (
    <div class="colour-bar">
      <span>{title}</span>
      <div>
        <canvas ref={canvas} role="img" aria-label={`colours of ${title}: ${told}`} style={{ width: `${LONG}px` }} />
        {scale.ticks.map(({ at, label }) => (
          <span key={label} class={at === 1 ? "last" : undefined} style={{ left: `${100 * at}%` }} aria-hidden="true">
            {label}
          </span>
        ))}
      </div>
    </div>
  );
}

interface PickerProps {
  name: ScaleName;
  set: ViewProps["set"];
  /** whether there are several rows, which could each have its own scale */
  rows?: boolean;
}

export function ScalePicker({ name, set, rows = true }: PickerProps) {
  const there = Object.entries(SCALES).filter(([value]) => rows || value !== "row");
  const choices = there.map(([value, label]) => ({ value, label }));
  return <Picker label="colours" value={name} choices={choices} pick={(scale) => set({ more: { scale } })} />;
}
