// Which weight gets which colour. Zero is always the page's own background, and an even look is always pale: the strong end
// of a scale is never less than four times the weight that an even look gives.
import { number } from "./labels";
import type { Matrix, State } from "./types";

export type ScaleName = "map" | "row" | "even" | "shared";

export const SCALES: Record<ScaleName, string> = {
  map: "this map",
  row: "each row",
  even: "relative to even",
  shared: "shared, 0 to 1",
};

export interface Scale {
  name: ScaleName;
  /** between 0 (nothing) and 1 (the strongest colour); NaN where the weight is not a number */
  strength(row: number, weight: number): number;
  /** what stands beside the colours: at a share of their length */
  ticks: { at: number; label: string }[];
  said: string;
}

const PALE = 4; // times an even look
const MANY = 128; // keys from which a few heavy ones would leave everything else without a colour

/** The weight of the strongest colour, where the largest weight is `largest` of so many. */
export function strongEnd(largest: number, keys: number): number {
  return Math.max(largest, Math.min(1, PALE / Math.max(1, keys)));
}

export function scaleName({ more }: Pick<State, "more">, keys: number): ScaleName {
  const name = more.scale;
  if (typeof name === "string" && Object.hasOwn(SCALES, name)) return name as ScaleName;
  return keys > MANY ? "even" : "map";
}

export function scaleOf(name: ScaleName, matrix: Matrix): Scale {
  const keys = matrix.columns;
  const end = strongEnd(name === "shared" ? 1 : matrix.largest, keys);
  const zero = { at: 0, label: "0" };
  if (name === "even") {
    // Equal ratios become equal steps, so that a weight of 1 does not blank what is a few times an even look.
    const top = Math.log1p(keys);
    const strength = (_: number, weight: number) => Math.log1p(Math.max(0, weight) * keys) / top;
    const even = { at: Math.LN2 / top, label: "even" };
    const ticks = [zero, ...(keys > 3 ? [even] : []), { at: 1, label: "1" }];
    return {
      name,
      strength,
      ticks,
      said: `Colours are relative to an even look (${number(1 / Math.max(1, keys), true, 3)} each), in equal ratios.`,
    };
  }
  if (name === "row") {
    const ends = new Map<number, number>();
    const endOf = (row: number) => {
      let found = ends.get(row);
      if (found === undefined) {
        let largest = 0;
        matrix.entries(row, (_, weight) => Number.isFinite(weight) && (largest = Math.max(largest, weight)));
        ends.set(row, (found = strongEnd(largest, keys)));
      }
      return found;
    };
    return {
      name,
      strength: (row, weight) => weight / endOf(row),
      ticks: [zero, { at: 1, label: "largest of its row" }],
      said: "Each row has its own scale: its largest weight has the strongest colour.",
    };
  }
  return {
    name,
    strength: (_, weight) => weight / end,
    ticks: [zero, { at: 1, label: number(end, matrix.exact) }],
    said: `The strongest colour is a weight of ${number(end, matrix.exact)}.`,
  };
}
