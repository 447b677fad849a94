// What a head does, as measured: the share of its weight on certain places, its entropy, how far it is from the others.
import { number, short } from "../labels";
import type { Habit, LoadedTrace, PageAxis, PageMap, Part } from "../types";

export const HABITS: Habit[] = ["itself", "before", "after", "first", "last", "special", "diagonal"];

/** A place in words: "the token before", "the last token (<eos>)". */
function placed(habit: Habit, axis: PageAxis, keys: number): string {
  const what = axis.kind === "tokens" ? "token" : "position";
  const end = (at: number) => (axis.kind === "tokens" ? ` (${short(axis.labels[at] ?? "", 20)})` : "");
  if (habit === "itself") return `the ${what} itself`;
  if (habit === "first") return `the first ${what}${end(0)}`;
  if (habit === "last") return `the last ${what}${end(keys - 1)}`;
  if (habit === "special") return "special tokens";
  return habit === "diagonal" ? "the diagonal, in the order of what is read" : `the ${what} ${habit}`;
}

const AHEAD = 0.05;

/** The habit with most of the weight. A place that holds another (special tokens: the last) must have clearly more. */
export function strongest(map: PageMap): { habit: Habit; share: number } | null {
  let found: { habit: Habit; share: number } | null = null;
  for (const habit of HABITS) {
    const share = map.habits?.[habit];
    if (typeof share !== "number" || !Number.isFinite(share)) continue;
    if (!found || share > found.share + (found.share > MOSTLY ? AHEAD : 0)) found = { habit, share };
  }
  return found;
}

/** How many positions an even look of the same entropy would take in. */
function breadth(map: PageMap): number | null {
  return map.entropy === null ? null : Math.exp(map.entropy);
}

const MOSTLY = 0.5;
const FAINT = 0.1;

/** "mostly the token before (0.83 of its weight); entropy 1.20 nats, …": only what was measured. */
export function habitOf(trace: LoadedTrace, map: PageMap): string {
  const said = [whereTo(map, trace.axis(map.key))];
  const wide = breadth(map);
  const evenly = wide === null ? "" : `${number(wide, true, wide < 10 ? 1 : 0)} of ${map.keys} positions`;
  if (wide !== null) said.push(`entropy ${number(map.entropy)} nats, as wide as ${evenly}`);
  return said.filter(Boolean).join("; ");
}

function whereTo(map: PageMap, axis: PageAxis): string {
  if (!map.queries || !map.keys) return "it looks at nothing";
  const found = strongest(map);
  const wide = breadth(map);
  // Statistics and graphs have no habits; other maps lack them when their weights are no numbers.
  if (!found) return map.kind === "dense" || map.kind === "top" ? "its weights are not all numbers" : "";
  // Of maps that keep few weights, what was not kept may add to any share.
  const share = `${map.kind === "top" ? "at least " : ""}${number(found.share)} of its weight`;
  if (found.share >= MOSTLY) return `mostly ${placed(found.habit, axis, map.keys)} (${share})`;
  if (wide !== null && wide > MOSTLY * map.keys) return "spread";
  if (found.share < FAINT) return "no one place";
  return `no one place; most of all ${placed(found.habit, axis, map.keys)} (${share})`;
}

export function headName(map: PageMap): string {
  return map.head === null ? map.site : `${map.site}, head ${map.head}`;
}

export function saidOf(trace: LoadedTrace, map: PageMap): Part[] {
  const habit = habitOf(trace, map);
  return [{ token: headName(map) }, habit ? `: ${habit}.` : "."];
}

/**
 * How far each head is from the mean of those of its shape, between 0 and 1: half the summed difference of their rows,
 * averaged over the rows; as thumbnails show them (rows scaled to one; of a large map the largest weight of each part).
 */
export function distances(maps: PageMap[], thumbs: Map<PageMap, Uint8Array>): Map<PageMap, number> {
  const groups = new Map<string, PageMap[]>();
  for (const map of maps) {
    if (!map.thumb || !thumbs.has(map)) continue;
    const name = JSON.stringify([map.query, map.key, map.thumb.rows, map.thumb.columns]);
    groups.set(name, [...(groups.get(name) ?? []), map]);
  }
  const found = new Map<PageMap, number>();
  for (const members of groups.values()) {
    const { rows, columns } = members[0]!.thumb!;
    const shares = members.map((map) => rowShares(thumbs.get(map)!, rows, columns));
    const mean = new Float32Array(rows * columns);
    for (const share of shares) for (let i = 0; i < mean.length; i++) mean[i]! += share[i]! / shares.length;
    members.forEach((map, m) => {
      let sum = 0;
      for (let i = 0; i < mean.length; i++) sum += Math.abs(shares[m]![i]! - mean[i]!);
      found.set(map, sum / 2 / Math.max(1, rows));
    });
  }
  return found;
}

function rowShares(thumb: Uint8Array, rows: number, columns: number): Float32Array {
  const shares = Float32Array.from(thumb, (q) => q * q);
  for (let r = 0; r < rows; r++) {
    const row = shares.subarray(r * columns, (r + 1) * columns);
    const sum = row.reduce((all, share) => all + share, 0);
    if (sum > 0) row.forEach((share, c) => (row[c] = share / sum));
  }
  return shares;
}

export type Order = "place" | "entropy" | "distance";

/** Heads in order: the narrowest look first, or the oddest first; what has no figure comes last. */
export function ordered(maps: PageMap[], order: Order, distance: () => Map<PageMap, number>): PageMap[] {
  if (order === "place") return maps;
  const far = order === "distance" ? distance() : null;
  const figure = (map: PageMap) => (far ? -(far.get(map) ?? -Infinity) : (map.entropy ?? Infinity));
  return [...maps].sort((a, b) => (figure(a) === figure(b) ? 0 : figure(a) - figure(b)));
}
