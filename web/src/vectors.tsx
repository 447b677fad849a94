// A vector as a strip: one cell a number, one hue above zero, another below, nothing at zero.
import { useRef } from "preact/hooks";
import { useDrawn } from "./drawn";
import { useWidth } from "./heatmap";
import { number } from "./labels";
import { useColours } from "./theme";

interface StripProps {
  values: ArrayLike<number>;
  /** the accessible name: "context of step 3" */
  name: string;
  /** the size that gets the strongest colour; the largest of these values unless given */
  largest?: number;
  /** into how many equal parts lines divide it */
  parts?: number;
  height?: number;
  /** true: the numbers run down the height, not along the width */
  down?: boolean;
  /** the index under the pointer, or null */
  onHover?(index: number | null): void;
}

export function largestSize(values: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++)
    if (Number.isFinite(values[i])) largest = Math.max(largest, Math.abs(values[i]!));
  return largest;
}

export function Strip({ values, name, largest, parts = 1, height = 20, down = false, onHover }: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const colours = useColours();
  const most = (largest ?? largestSize(values)) || 1;
  useDrawn(canvas, width, height, (pen, density) => {
    const cell = (down ? height : width) / Math.max(1, values.length);
    const thick = Math.max(cell, 1 / density);
    for (let i = 0; i < values.length; i++) {
      const colour = colours.signed(values[i]! / most);
      if (down) pen.rect(0, i * cell, width, thick, colour);
      else pen.rect(i * cell, 0, thick, height, colour);
    }
    for (let i = 1; i < parts; i++) {
      const at = Math.round(((down ? height : width) * i) / parts);
      if (down) pen.rect(0, at, width, 1, colours.ink);
      else pen.rect(at, 0, 1, height, colours.ink);
    }
    pen.frame(0.5, 0.5, width - 1, height - 1, colours.line, 1);
  });
  const told = (event: PointerEvent) =>
    onHover?.(
      Math.min(
        values.length - 1,
        Math.max(0, Math.floor((down ? event.offsetY / height : event.offsetX / width) * values.length)),
      ),
    );
  const label = `${name}: ${values.length} numbers, the largest in size ${number(largestSize(values))}`;
  return (
    <div class="strip" ref={box}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        style={{ display: "block", width: "100%", height: `${height}px` }}
        onPointerMove={told}
        onPointerLeave={() => onHover?.(null)}
      />
    </div>
  );
}
