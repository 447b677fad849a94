// Matrices over what a trace kept: dense rows, a few entries a row, a graph's edges. None of them allocates T × S.
import type { Matrix } from "./types";

function largestOf(values: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (value > largest && value !== Infinity) largest = value;
  }
  return largest;
}

export function dense(values: Float32Array, rows: number, columns: number, exact = true): Matrix {
  let largest = -1;
  const row = (r: number) => values.subarray(r * columns, (r + 1) * columns);
  return {
    rows,
    columns,
    exact,
    partial: false,
    residual: null,
    get largest() {
      return largest < 0 ? (largest = largestOf(values)) : largest;
    },
    at: (r, c) => (r < 0 || c < 0 || r >= rows || c >= columns ? NaN : values[r * columns + c]!),
    row,
    entries(r, visit) {
      const from = r * columns;
      for (let c = 0; c < columns; c++) visit(c, values[from + c]!);
    },
  };
}

/** Bytes of a rounded map: (q/255)² · the row's maximum, worked out as rows are asked for. */
export function rounded(bytes: Uint8Array, maxima: Float32Array, rows: number, columns: number): Matrix {
  const squares = Float32Array.from({ length: 256 }, (_, q) => (q / 255) ** 2);
  const value = (r: number, c: number) => squares[bytes[r * columns + c]!]! * maxima[r]!;
  return {
    rows,
    columns,
    exact: false,
    partial: false,
    residual: null,
    largest: largestOf(maxima),
    at: (r, c) => (r < 0 || c < 0 || r >= rows || c >= columns ? NaN : value(r, c)),
    row: (r) => Float32Array.from({ length: columns }, (_, c) => value(r, c)),
    entries(r, visit) {
      for (let c = 0; c < columns; c++) visit(c, value(r, c));
    },
  };
}

/** Rows of few entries: those of row r lie at from[r] … from[r + 1] in `index` and `values`. Equal keys add up. */
export function sparse(
  from: ArrayLike<number>,
  index: ArrayLike<number>,
  values: ArrayLike<number>,
  columns: number,
  residual: Float32Array | null,
  exact = true,
  partial = residual !== null,
): Matrix {
  const rows = from.length - 1;
  const entries: Matrix["entries"] = (r, visit) => {
    for (let i = from[r]!; i < from[r + 1]!; i++) {
      const key = index[i]!;
      // Rows that kept fewer are filled up with weight 0 at key 0.
      if (values[i] !== 0 && key >= 0 && key < columns) visit(key, values[i]!);
    }
  };
  return {
    rows,
    columns,
    exact,
    partial,
    residual,
    largest: largestOf(values),
    at(r, c) {
      if (r < 0 || c < 0 || r >= rows || c >= columns) return NaN;
      let found = 0;
      entries(r, (key, value) => {
        if (key === c) found += value;
      });
      return found;
    },
    row(r) {
      const row = new Float32Array(columns);
      entries(r, (key, value) => (row[key] = row[key]! + value));
      return row;
    },
    entries,
  };
}

/** Where each row of k entries begins. */
export function steps(rows: number, k: number): Int32Array {
  const from = new Int32Array(rows + 1);
  for (let r = 1; r <= rows; r++) from[r] = r * k;
  return from;
}

/** The edges of a graph as rows: query edges[0][e] looks at key edges[1][e]. */
export function fromEdges(edges: ArrayLike<number>, values: ArrayLike<number>, rows: number, columns: number): Matrix {
  const count = values.length;
  const from = new Int32Array(rows + 1);
  for (let e = 0; e < count; e++) if (edges[e]! < rows) from[edges[e]! + 1]!++;
  for (let r = 0; r < rows; r++) from[r + 1]! += from[r]!;
  const next = from.slice();
  const index = new Int32Array(count);
  const sorted = new Float32Array(count);
  for (let e = 0; e < count; e++) {
    const query = edges[e]!;
    if (query >= rows) continue;
    const place = next[query]!++;
    index[place] = edges[count + e]!;
    sorted[place] = values[e]!;
  }
  return sparse(from, index, sorted, columns, null);
}

/** The mean of several matrices of one shape: heads of one site. */
export function mean(all: Matrix[]): Matrix {
  const first = all[0];
  if (!first) return dense(new Float32Array(0), 0, 0);
  if (all.length === 1) return first;
  const { rows, columns } = first;
  const exact = all.every((matrix) => matrix.exact);
  const share = 1 / all.length;
  if (!all.some((matrix) => matrix.partial) && rows * columns <= 1 << 22) {
    const sum = new Float32Array(rows * columns);
    for (const matrix of all)
      for (let r = 0; r < rows; r++) matrix.entries(r, (c, value) => (sum[r * columns + c]! += value * share));
    return dense(sum, rows, columns, exact);
  }
  const from = new Int32Array(rows + 1);
  const index: number[] = [];
  const values: number[] = [];
  const residual = new Float32Array(rows);
  // Where in this row's entries a column stands: one array for all rows, since maps made anew for each cost most.
  const place = new Int32Array(columns).fill(-1);
  for (let r = 0; r < rows; r++) {
    const first = index.length;
    for (const matrix of all) {
      matrix.entries(r, (c, value) => {
        if (place[c]! < first) place[c] = index.push(c) - 1;
        values[place[c]!] = (values[place[c]!] ?? 0) + value * share;
      });
      residual[r]! += (matrix.residual?.[r] ?? 0) * share;
    }
    from[r + 1] = index.length;
  }
  return sparse(from, index, values, columns, all.some((matrix) => matrix.partial) ? residual : null, exact);
}
