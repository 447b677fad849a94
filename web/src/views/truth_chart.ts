// The geometry of a few curves over one pair of axes, each named at its end.
import type { Faithfulness } from "../types";

export type Curve = Faithfulness["curves"][number];

export interface Chart {
  left: number;
  right: number;
  top: number;
  bottom: number;
  height: number;
  x(value: number): number;
  y(value: number): number;
  ticks: number[];
  /** where the horizontal axis is numbered */
  marks: number[];
  paths: string[];
  /** where each curve's name stands: beside its end, and clear of the others */
  names: number[];
}

const LINE = 18;

/** A number, or NaN for what is none: files say null for it. */
export function finite(value: number | null | undefined): number {
  return typeof value === "number" && Number.isFinite(value) ? value : NaN;
}

export function chartOf(curves: Curve[], width: number, names: number): Chart {
  const [left, top] = [34, 44];
  const right = Math.max(left + 40, width - names - 8);
  const down = Math.max(150, Math.min(280, (right - left) * 0.7));
  const bottom = top + down;
  const xs = curves.flatMap((curve) => curve.x).filter(Number.isFinite);
  const ys = curves.flatMap((curve) => curve.y.map(finite)).filter(Number.isFinite);
  const [x0, x1] = [Math.min(...xs, 0), Math.max(...xs, 1)];
  // Probabilities are seen whole, from 0 to 1; what is none has its own range.
  const shares = ys.every((y) => y >= 0 && y <= 1);
  const [y0, y1] = shares ? [0, 1] : [Math.min(0, ...ys), Math.max(0, ...ys)];
  const x = (value: number) => left + ((value - x0) / (x1 - x0 || 1)) * (right - left);
  const y = (value: number) => bottom - ((value - y0) / (y1 - y0 || 1)) * down;
  const paths = curves.map((curve) => pathOf(curve, x, y));
  const ends = curves.map((curve) => y(curve.y.map(finite).filter(Number.isFinite).at(-1) ?? 0));
  return {
    left,
    right,
    top,
    bottom,
    height: bottom + 50,
    x,
    y,
    ticks: shares ? [0, 0.5, 1] : [y0, y1],
    marks: apart(xs, x),
    paths,
    names: spread(ends, top, bottom),
  };
}

/** The places of points that have room for their numbers. */
function apart(xs: number[], x: (value: number) => number): number[] {
  const kept: number[] = [];
  for (const value of [...new Set(xs)].sort((one, other) => one - other))
    if (!kept.length || x(value) - x(kept.at(-1)!) > 22) kept.push(value);
  return kept;
}

/** A line through the points; what is no number leaves a gap. */
function pathOf(curve: Curve, x: (value: number) => number, y: (value: number) => number): string {
  let pen = "M";
  return curve.x
    .map((value, i) => {
      if (!Number.isFinite(finite(curve.y[i])) || !Number.isFinite(value)) {
        pen = "M";
        return "";
      }
      const step = `${pen}${x(value).toFixed(1)} ${y(curve.y[i]!).toFixed(1)}`;
      pen = "L";
      return step;
    })
    .join("");
}

/** Heights moved apart until each has a line of its own, as near to where they were as that allows. */
export function spread(wanted: number[], top: number, bottom: number): number[] {
  const order = [...wanted.keys()].sort((one, other) => wanted[one]! - wanted[other]!);
  const placed = [...wanted];
  order.forEach((i, n) => (placed[i] = Math.max(wanted[i]!, n ? placed[order[n - 1]!]! + LINE : top)));
  [...order]
    .reverse()
    .forEach((i, n, all) => (placed[i] = Math.min(placed[i]!, n ? placed[all[n - 1]!]! - LINE : bottom)));
  return placed;
}
