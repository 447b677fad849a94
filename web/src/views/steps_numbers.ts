// The arithmetic behind Steps: what the equations claim is checked here before the page claims it.
import type { Matrix } from "../types";

/** Weights kept with a byte each are off by this much at most; exact ones by single precision alone. */
const ROUNDED = 0.01;
const EXACT = 1e-4;

/** softmax(scores), null where there is none: no scores, all −∞, some not numbers. */
export function softmax(scores: ArrayLike<number>): Float64Array | null {
  let top = -Infinity;
  for (let i = 0; i < scores.length; i++) {
    if (Number.isNaN(scores[i]) || scores[i] === Infinity) return null;
    top = Math.max(top, scores[i]!);
  }
  if (top === -Infinity) return null;
  const shares = Float64Array.from(scores, (score) => Math.exp(score - top));
  const sum = shares.reduce((total, share) => total + share, 0);
  return shares.map((share) => share / sum);
}

/** Whether these weights are the softmax of these scores: a gain, another normaliser, an edit make others. */
export function isSoftmax(scores: ArrayLike<number>, weights: ArrayLike<number>, exact = true): boolean {
  const expected = softmax(scores);
  if (!expected || expected.length !== weights.length) return false;
  return expected.every((weight, i) => Math.abs(weight - weights[i]!) <= (exact ? EXACT : ROUNDED));
}

/** Σ α h over what is kept of a row: `states` has one row a key, from position `first` on. */
export function weightedSum(weights: ArrayLike<number>, states: Matrix, first = 0): Float64Array {
  const sum = new Float64Array(states.columns);
  for (let key = first; key < weights.length && key - first < states.rows; key++) {
    const weight = weights[key]!;
    if (weight) states.entries(key - first, (column, value) => (sum[column]! += weight * value));
  }
  return sum;
}

/** Whether a context is this sum: then the page may write c = Σ α h, and show it move under the hand. */
export function isSum(sum: ArrayLike<number>, context: ArrayLike<number>, exact = true): boolean {
  if (sum.length !== context.length || !sum.length) return false;
  let size = 0;
  for (let i = 0; i < context.length; i++) size = Math.max(size, Math.abs(context[i]!));
  const slack = (exact ? 10 * EXACT : 2 * ROUNDED) * Math.max(size, EXACT);
  for (let i = 0; i < sum.length; i++) if (!(Math.abs(sum[i]! - context[i]!) <= slack)) return false;
  return true;
}

/** The rows of a picture: positions in their order, and what the others weigh together. */
export interface Shown {
  keys: number[];
  others: { count: number; mass: number } | null;
}

/** All positions while they fit; of many, those that weigh something (and `keep`), never more than fit. */
export function shownKeys(
  weights: ArrayLike<number>,
  keep: number | null,
  most: number,
  residual = 0,
  least = 0.005,
): Shown {
  const all = Array.from({ length: weights.length }, (_, key) => key);
  if (all.length <= most) return { keys: all, others: residual > 0 ? { count: 0, mass: residual } : null };
  const weight = (key: number) => (key === keep ? Infinity : Number.isNaN(weights[key]) ? 1 : weights[key]!);
  const heavy = all.filter((key) => weight(key) >= least).sort((a, b) => weight(b) - weight(a));
  const keys = (heavy.length ? heavy : all).slice(0, most).sort((a, b) => a - b);
  let mass = residual;
  const shown = new Set(keys);
  for (const key of all) if (!shown.has(key) && weights[key]! > 0) mass += weights[key]!;
  return { keys, others: { count: all.length - keys.length, mass } };
}

/** Where the weight is largest; −1 where nothing weighs anything. */
export function heaviest(weights: ArrayLike<number>): number {
  let best = -1;
  for (let i = 0; i < weights.length; i++) if (weights[i]! > (best < 0 ? 0 : weights[best]!)) best = i;
  return best;
}
