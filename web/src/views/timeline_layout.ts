// Where visits and reviews stand on their line.
import type { PageAxis } from "../types";

const DAY = 86_400_000;

/** When each happened, in milliseconds: a date, or "day 2.5"; null where a time is missing or is none. */
export function timesOf(axis: PageAxis): number[] | null {
  const times = (axis.times ?? []).map((time) => {
    const day = /^day (-?[\d.]+)$/.exec(time);
    return day ? DAY * Number(day[1]) : Date.parse(time);
  });
  return times.length === axis.labels.length &&
    times.length > 1 &&
    times.every(Number.isFinite) &&
    Math.max(...times) > Math.min(...times)
    ? times
    : null;
}

/** The middles of `count` marks on a line from `left` to `right`: by time where it is known, but never nearer than `gap`. */
export function placesOf(
  order: number[],
  times: number[] | null,
  left: number,
  right: number,
  gap: number,
): Float64Array {
  const count = order.length;
  const x = new Float64Array(count);
  const span = Math.max(0, right - left);
  const least = Math.min(gap, count > 1 ? span / (count - 1) : span);
  const [first, last] = times ? [Math.min(...times), Math.max(...times)] : [0, Math.max(1, count - 1)];
  order.forEach(
    (position, i) => (x[i] = left + (((times ? times[position]! : i) - first) / (last - first || 1)) * span),
  );
  for (let i = 1; i < count; i++) x[i] = Math.max(x[i]!, x[i - 1]! + least);
  for (let i = count - 1; i >= 0; i--) x[i] = Math.min(x[i]!, i === count - 1 ? right : x[i + 1]! - least);
  return x;
}

/** Which labels can stand beside each other: the chosen one first, then from left to right as there is room. */
export function room(
  x: ArrayLike<number>,
  widths: number[],
  chosen: number,
  right: number,
): { shown: boolean[]; at: number[] } {
  const at = widths.map((width, i) => Math.max(width / 2, Math.min(right - width / 2, x[i]!)));
  const shown = widths.map((_, i) => i === chosen);
  const apart = (i: number, j: number) => Math.abs(at[i]! - at[j]!) >= (widths[i]! + widths[j]!) / 2 + 8;
  let last = -1;
  widths.forEach((_, i) => {
    if (i !== chosen && (last < 0 || apart(i, last)) && (chosen < 0 || apart(i, chosen))) shown[i] = true;
    if (shown[i]) last = i;
  });
  return { shown, at };
}

/** ★★★★☆ for 4 of 5; nothing for ratings on other scales. */
export function stars(rating: number): string {
  if (!(rating >= 0 && rating <= 5)) return "";
  const full = Math.round(rating);
  return "★".repeat(full) + "☆".repeat(5 - full);
}
