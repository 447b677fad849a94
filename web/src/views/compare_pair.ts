// Two looks beside each other: which row of one is which of the other, and the three pictures they make.
import { aligned } from "../aligning";
import type { Look } from "../look";
import type { Matrix } from "../types";
import { differenceOf } from "./compare_difference";

/** Two looks in the order in which they stand, and which of them the page's own steps are of. */
export interface Pair {
  looks: [Look, Look];
  names: [string, string];
  front: 0 | 1;
}

export function pair(one: Look, two: Look, names: [string, string]): Pair {
  return { looks: [one, two], names, front: 0 };
}

/** What was comes first, so that the difference is what the change brought about. */
export function changedPair(before: Look, now: Look): Pair {
  return { looks: [before, now], names: ["before", "now"], front: 1 };
}

/** Labels of a look's rows. */
export function rowsOf(look: Look): string[] {
  return look.query.labels.slice(look.map.step, look.map.step + look.map.queries);
}

/** One of the three pictures, and which row of the page's own trace each of its rows is; −1: none. */
export interface Picture {
  name: string;
  matrix: Matrix;
  rowLabels: string[];
  toFront(row: number): number;
  fromFront(row: number): number;
}

export function picturesOf({ looks, names, front }: Pair) {
  const rows: [string[], string[]] = [rowsOf(looks[0]), rowsOf(looks[1])];
  const pairs = aligned(...rows);
  const both = pairs.filter(([a, b]) => a >= 0 && b >= 0);
  const between = differenceOf(looks[0].weights, looks[1].weights, both);
  const sides = looks.map((look, side): Picture => {
    const own = side === front;
    const [to, from] = [
      new Map(both.map((each) => [each[side]!, each[front]!])),
      new Map(both.map((each) => [each[front]!, each[side]!])),
    ];
    return {
      name: names[side]!,
      matrix: look.weights,
      rowLabels: rows[side]!,
      toFront: (row) => (own ? row : (to.get(row) ?? -1)),
      fromFront: (row) => (own ? row : (from.get(row) ?? -1)),
    };
  });
  const third: Picture | null = between && {
    name: "the difference",
    matrix: between,
    rowLabels: both.map(([a, b]) => (rows[0][a] === rows[1][b] ? rows[0][a]! : `${rows[0][a]} | ${rows[1][b]}`)),
    toFront: (row) => both[row]?.[front] ?? -1,
    fromFront: (row) => both.findIndex((each) => each[front] === row),
  };
  return { rows, pairs, both, between, sides, third };
}
