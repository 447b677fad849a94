// The line of visits or reviews: a mark each, as high as its weight.
import { useMemo, useRef } from "preact/hooks";
import { useWidth } from "../heatmap";
import { number, short } from "../labels";
import { textWidth } from "../pen";
import { useColours } from "../theme";
import type { PageAxis } from "../types";
import { largestOf } from "./sources";
import { placesOf, room } from "./timeline_layout";

interface LineProps {
  axis: PageAxis;
  order: number[];
  weights: Float64Array;
  times: number[] | null;
  exact: boolean;
  chosen: number;
  active: number;
  hover(position: number | null): void;
  pick(position: number | null): void;
}

const HIGH = 150; // pixels of the highest bar
const TOP = 22;
const THICK = 18;
const BASE = TOP + HIGH;

/** What stands under a mark: when it was, or how it was rated. */
function under(axis: PageAxis, i: number): string {
  const rating = axis.ratings?.[i];
  if (axis.times?.[i]) return short(axis.times[i], 16);
  return typeof rating === "number"
    ? `${number(rating, true, Number.isInteger(rating) ? 0 : 1)} ★`
    : short(axis.labels[i] ?? String(i + 1), 12);
}

/** Which of the texts have room, and where they then stand. */
function useRoom(
  x: Float64Array,
  order: number[],
  text: (position: number) => string,
  place: number,
  width: number,
  depends: unknown[],
) {
  return useMemo(() => {
    const widths = order.map((position) => textWidth(text(position)));
    return room(x, widths, place, width);
  }, [x, place, ...depends]);
}

/** Where the marks stand, how high they are, and which numbers and dates have room. */
function useMarks({ axis, order, weights, times, exact, chosen, active }: LineProps, seen: number) {
  // Below a few pixels a mark cannot be hit: the line then scrolls.
  const width = Math.max(seen, order.length * 7);
  const gap = Math.min(THICK + 4, (width - 60) / Math.max(1, order.length));
  const x = useMemo(() => placesOf(order, times, 30, width - 30, gap), [order, times, width]);
  const thick = Math.max(3, Math.min(THICK, gap - 3));
  const largest = largestOf(weights).value || 1;
  const place = order.indexOf(active >= 0 ? active : chosen);
  const dates = useRoom(x, order, (i) => under(axis, i), place, width, [axis]);
  const numbers = useRoom(x, order, (i) => number(weights[i], exact), place, width, [weights]);
  const tall = (i: number) =>
    Number.isFinite(weights[order[i]!]!) ? (Math.max(0, weights[order[i]!]!) / largest) * HIGH : HIGH;
  // A number that would lie on its neighbour's bar stays away, and all do where marks are thin; the chosen one is there.
  const free = (i: number) =>
    i === place ||
    (gap > 15 &&
      [i - 1, i + 1].every((j) => !(j in x) || tall(j) < tall(i) || Math.abs(x[j]! - x[i]!) > (thick + 30) / 2));
  return { width, gap, x, thick, largest, dates, numbers, tall, free };
}

export function Line(props: LineProps) {
  const { axis, order, weights, exact, chosen, active, hover, pick } = props;
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const seen = useWidth(box);
  const { width, gap, x, thick, largest, dates, numbers, tall, free } = useMarks(props, seen);
  return (
    <div
      ref={box}
      class="timeline"
      role="group"
      tabIndex={0}
      aria-label={`${order.length} marks on a line; arrow keys move, Escape lets go`}
      style={{ overflowX: width > seen ? "auto" : undefined }}
      onPointerLeave={() => hover(null)}
      onKeyDown={(event) => keyed(event, props)}
    >
      <svg width={width} height={BASE + 34} viewBox={`0 0 ${width} ${BASE + 34}`} aria-hidden="true">
        <path d={`M0 ${BASE + 0.5}H${width}`} stroke={colours.line} />
        {order.map((position, i) => {
          const [weight, now] = [weights[position]!, position === chosen || position === active];
          const fill = position === chosen ? colours.accent : position === active ? colours.ink : null;
          return (
            <g key={position} class="stop" onPointerEnter={() => hover(position)} onClick={() => pick(position)}>
              <rect x={x[i]! - gap / 2} y={0} width={gap} height={BASE + 34} fill="transparent" />
              <Mark x={x[i]!} height={tall(i)} thick={thick} strength={weight / largest} fill={fill} />
              {numbers.shown[i] && free(i) && (
                <text class={now ? "now" : ""} x={numbers.at[i]} y={BASE - tall(i) - 7} text-anchor="middle">
                  {number(weight, exact)}
                </text>
              )}
              {dates.shown[i] && (
                <text class={now ? "now" : ""} x={dates.at[i]} y={BASE + 24} text-anchor="middle">
                  {under(axis, position)}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

interface MarkProps {
  x: number;
  height: number;
  thick: number;
  /** the weight as a share of the largest; not a number is an empty frame */
  strength: number;
  /** the colour of one that is chosen or pointed at */
  fill: string | null;
}

function Mark({ x, height, thick, strength, fill }: MarkProps) {
  const colours = useColours();
  const place = { x: x - thick / 2, y: BASE - height, width: thick, height };
  return (
    <>
      {Number.isFinite(strength) ? (
        <rect {...place} rx={2} fill={fill ?? colours.shade(0.35 + 0.4 * strength)} />
      ) : (
        <rect {...place} fill="none" stroke={colours.quiet} stroke-dasharray="3 3" />
      )}
      <circle cx={x} cy={BASE + 0.5} r={Math.min(4, thick / 2)} fill={fill ?? colours.quiet} />
    </>
  );
}

const MOVES: Record<string, number> = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

function keyed(event: KeyboardEvent, { order, chosen, pick }: LineProps): void {
  if (event.altKey || event.ctrlKey || event.metaKey || !order.length) return;
  const at = order.indexOf(chosen);
  const move = MOVES[event.key];
  if (move) pick(order[Math.max(0, Math.min(order.length - 1, at + move))]!);
  else if (event.key === "Home") pick(order[0]!);
  else if (event.key === "End") pick(order.at(-1)!);
  else if (event.key === "Enter") pick(chosen);
  else if (event.key === "Escape") pick(null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
