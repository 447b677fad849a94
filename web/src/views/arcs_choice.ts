// Which arcs to draw: of each row the fewest that together hold the chosen share of its weight.
import type { Matrix } from "../types";

export interface Arcs {
  /** the arcs of row r are from[r] … from[r + 1] − 1, the strongest first */
  from: Int32Array;
  row: Int32Array;
  column: Int32Array;
  weight: Float32Array;
  /** the strongest of all */
  largest: number;
  /** rows of which less than the share was kept */
  short: number;
  /** rows with weights that are no numbers */
  broken: number;
}

export function choose(matrix: Matrix, share: number): Arcs {
  const from = new Int32Array(matrix.rows + 1);
  const [rows, columns, weights]: [number[], number[], number[]] = [[], [], []];
  let [largest, short, broken] = [0, 0, 0];
  for (let r = 0; r < matrix.rows; r++) {
    const found = rowOf(matrix, r, share);
    for (const i of found.order) {
      rows.push(r);
      columns.push(found.columns[i]!);
      weights.push(found.weights[i]!);
    }
    largest = Math.max(largest, found.weights[found.order[0] ?? -1] ?? 0);
    short += Number(found.short);
    broken += Number(found.broken);
    from[r + 1] = rows.length;
  }
  const [row, column, weight] = [Int32Array.from(rows), Int32Array.from(columns), Float32Array.from(weights)];
  return { from, row, column, weight, largest, short, broken };
}

function rowOf(matrix: Matrix, r: number, share: number) {
  const columns: number[] = [];
  const weights: number[] = [];
  let broken = false;
  let kept = 0;
  matrix.entries(r, (column, weight) => {
    if (!Number.isFinite(weight)) broken = true;
    if (!(weight > 0) || weight === Infinity) return;
    columns.push(column);
    weights.push(weight);
    kept += weight;
  });
  const wanted = share * (kept + (matrix.residual?.[r] ?? 0)) - 1e-6;
  // Sorting numbers alone is many times quicker than sorting what they belong to, and most of them are not drawn.
  const falling = Float32Array.from(weights).sort().reverse();
  let [sum, count] = [0, 0];
  while (count < falling.length && (count === 0 || sum < wanted)) sum += falling[count++]!;
  const least = falling[count - 1] ?? Infinity;
  const enough: number[] = [];
  for (let i = 0; i < weights.length; i++) if (Math.fround(weights[i]!) >= least) enough.push(i);
  enough.sort((a, b) => weights[b]! - weights[a]!);
  return { columns, weights, broken, short: sum < wanted, order: enough.slice(0, count) };
}

/** The arcs that end at each column, the strongest first. */
export function arriving(arcs: Arcs): (column: number) => number[] {
  const lists = new Map<number, number[]>();
  let ready = false;
  return (column) => {
    if (!ready) {
      arcs.column.forEach((each, i) => {
        const list = lists.get(each);
        if (list) list.push(i);
        else lists.set(each, [i]);
      });
      ready = true;
    }
    return (lists.get(column) ?? []).sort((a, b) => arcs.weight[b]! - arcs.weight[a]!);
  };
}

/** The arcs that leave a row. */
export function leaving(arcs: Arcs, row: number): number[] {
  const [first, last] = [arcs.from[row] ?? 0, arcs.from[row + 1] ?? 0];
  return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
}

export interface Links {
  out: number[];
  into: number[];
}
