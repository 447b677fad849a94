// What lies between two maps: row by row, position by position.
import { number } from "../labels";
import { dense } from "../matrices";
import type { Matrix } from "../types";
import type { Pairing } from "../aligning";

const MOST = 4_000_000; // cells that are worth the memory

/** The second's weights less the first's, for the rows that both have; null when that would be too large. */
export function differenceOf(one: Matrix, two: Matrix, both: Pairing[]): Matrix | null {
  const wide = one.columns;
  if (both.length * wide > MOST) return null;
  const values = new Float32Array(both.length * wide);
  both.forEach(([a, b], row) => {
    two.entries(b, (c, value) => (values[row * wide + c]! += value));
    one.entries(a, (c, value) => (values[row * wide + c]! -= value));
  });
  // Of weights that were not kept nothing is known: differences with them are about so large.
  const exact = [one, two].every((matrix) => matrix.exact && !matrix.partial);
  const found = dense(values, both.length, wide, exact);
  const largest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
  return Object.defineProperty(found, "largest", { value: largest });
}

export interface Spot {
  row: number;
  key: number;
  value: number;
}

/** The cells that differ most. */
export function largestOf(between: Matrix, count: number): Spot[] {
  const found: Spot[] = [];
  for (let row = 0; row < between.rows; row++)
    between.entries(row, (key, value) => {
      if (!(Math.abs(value) > (found.length < count ? 0 : Math.abs(found[count - 1]!.value)))) return;
      found.push({ row, key, value });
      found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).splice(count);
    });
  return found;
}

/** A difference with its sign. */
export function plus(value: number, exact: boolean): string {
  const text = number(value, exact);
  return value > 0 && !text.startsWith("<") ? `+${text}` : text;
}

/** How much of the attention is elsewhere, in the mean of the steps that both have: ½ Σ |difference|. */
export function movedShare(between: Matrix): number {
  let sum = 0;
  for (let row = 0; row < between.rows; row++) between.entries(row, (_, value) => (sum += Math.abs(value) / 2));
  return sum / Math.max(1, between.rows);
}
