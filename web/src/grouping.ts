// A map as it is shown: some tokens hidden, subwords together. Weights add up over keys and are averaged over queries,
// so that a row of words still sums to what a row of tokens did.
import type { Line } from "./labels";
import { dense } from "./matrices";
import type { Matrix } from "./types";

/** Above this a grouped map is worked out row by row as it is drawn. */
const AT_ONCE = 1 << 21;

/** `rows.from` are positions on the query axis, of which the matrix's first row is `step`. */
export function grouped(matrix: Matrix, rows: Line, columns: Line, step: number): Matrix {
  if (rows.plain && columns.plain && rows.labels.length === matrix.rows && columns.labels.length === matrix.columns)
    return matrix;
  const lazy = gathered(matrix, rows, columns, step);
  if (matrix.partial || lazy.rows * lazy.columns > AT_ONCE) return lazy;
  const values = new Float32Array(lazy.rows * lazy.columns);
  for (let r = 0; r < lazy.rows; r++) values.set(lazy.row(r), r * lazy.columns);
  return dense(values, lazy.rows, lazy.columns, matrix.exact);
}

function gathered(matrix: Matrix, rows: Line, columns: Line, step: number): Matrix {
  const entries: Matrix["entries"] = (r, visit) => {
    const sums = new Map<number, number>();
    const share = 1 / (rows.to[r]! - rows.from[r]!);
    for (let position = rows.from[r]!; position < rows.to[r]!; position++) {
      if (position - step < 0 || position - step >= matrix.rows) continue;
      matrix.entries(position - step, (c, value) => {
        const group = columns.group[c] ?? -1;
        if (group >= 0) sums.set(group, (sums.get(group) ?? 0) + value * share);
      });
    }
    sums.forEach((value, column) => visit(column, value));
  };
  const row = (r: number) => {
    const found = new Float32Array(columns.labels.length);
    entries(r, (c, value) => (found[c] = value));
    return found;
  };
  return {
    rows: rows.labels.length,
    columns: columns.labels.length,
    exact: matrix.exact,
    partial: matrix.partial,
    largest: Math.max(matrix.largest, 0),
    residual: residualOf(matrix, rows, step),
    at: (r, c) => (r < 0 || r >= rows.labels.length ? NaN : (row(r)[c] ?? NaN)),
    row,
    entries,
  };
}

function residualOf(matrix: Matrix, rows: Line, step: number): Float32Array | null {
  const { residual } = matrix;
  if (!residual) return null;
  return Float32Array.from(rows.from, (from, r) => {
    let sum = 0;
    for (let position = from; position < rows.to[r]!; position++) sum += residual[position - step] ?? 0;
    return sum / (rows.to[r]! - from);
  });
}

/** What a row kept of its mass: its sum, its entropy (nats, over what was kept), its largest entry and where it is. */
export interface RowFacts {
  sum: number;
  entropy: number;
  largest: number;
  argmax: number;
  /** NaN or infinite entries */
  broken: number;
}

export function factsOf(matrix: Matrix, row: number): RowFacts {
  const facts: RowFacts = { sum: 0, entropy: 0, largest: 0, argmax: -1, broken: 0 };
  const note = (column: number, value: number) => {
    if (!Number.isFinite(value)) return void facts.broken++;
    facts.sum += value;
    if (value > 0) facts.entropy -= value * Math.log(value);
    if (value > facts.largest) {
      facts.largest = value;
      facts.argmax = column;
    }
  };
  matrix.entries(row, note);
  return facts;
}

/** The mass each column received, summed over the rows. */
export function received(matrix: Matrix): Float32Array {
  const sums = new Float32Array(matrix.columns);
  for (let r = 0; r < matrix.rows; r++) matrix.entries(r, (c, value) => Number.isFinite(value) && (sums[c]! += value));
  return sums;
}

const ALIKE = 1e-3; // of the largest: float32 and a page's digits make smaller differences

/** How many weigh something, where all of those weigh the same: then nothing was looked at most. 0: some weigh more. */
export function evenly(weights: Iterable<number>, exact = true): number {
  let [count, least, most] = [0, Infinity, 0];
  for (const weight of weights) {
    if (!Number.isFinite(weight)) return 0;
    if (weight <= 0) continue;
    count++;
    [least, most] = [Math.min(least, weight), Math.max(most, weight)];
  }
  return count > 1 && most - least <= (exact ? ALIKE : 20 * ALIKE) * most ? count : 0;
}
