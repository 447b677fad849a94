// One step of a decode: its rows, its vectors, and how its weights came about.
import { canBegin, isGiven, outputAt } from "../output_kind";
import type { Weighed } from "../equations";
import type { State } from "../types";
import { type Change, type Place, touches } from "../what_if";
import type { Draft } from "../what_if_hand";
import { type Decode, type Likely, likelyAt, vectorAt } from "./steps_loading";
import { heaviest, isSoftmax, isSum, type Shown, shownKeys, weightedSum } from "./steps_numbers";

export const MOST_ROWS = 60;

export interface Moment {
  /** the position on the query axis, and what readers count: the first step is 1 */
  step: number;
  count: number;
  row: ArrayLike<number>;
  exact: boolean;
  scores: ArrayLike<number> | null;
  shown: Shown;
  /** the position in focus: under the pointer, else locked, else the heaviest; −1 where there is none */
  key: number;
  /** under the pointer or locked; null: none */
  lit: number | null;
  weighed: Weighed;
  context: ArrayLike<number> | null;
  /** whether the context is Σ α h of the states shown */
  summed: boolean;
  likely: Likely[];
  /** what came out, as the likely ones are named */
  written: string | null;
  /** whether it writes, one step after the other: a class, a tag or a score is not written */
  writes: boolean;
  /** whether what stands here was given, not written: a prompt */
  given: boolean;
  /** whether the model can be made to write something else here */
  forced: boolean;
}

/** Where the state stands, as edits name it. */
export function placeOf({ look }: Decode, step: number): Place | null {
  return look && { site: look.site, head: look.averaged ? null : look.map.head, step };
}

/** The number of a position of what is read: readers count from 1, unless the task numbers it otherwise; "" before its first. */
export function numberOf({ look, trace }: Decode, key: number): string {
  const first = trace.about.counts_from?.[look?.map.key ?? ""];
  const number = key + (typeof first === "number" ? first : 1);
  return number < 0 ? "" : String(number);
}

/** How many positions the model has at a step: of its own output only what is written so far. */
export function sizeAt({ look, growing }: Decode, step: number): number {
  if (!look) return 0;
  const { keys, queries } = look.map;
  return growing ? Math.min(keys, step - look.map.step + 1 + keys - queries) : keys;
}

export function stepAt({ look, outputs, trace }: Decode, state: State): number {
  if (look) return Math.max(look.map.step, Math.min(look.map.step + look.map.queries - 1, state.step));
  const count = outputs?.labels.length ?? (trace.outputs ? 0 : 1);
  return Math.max(0, Math.min(Math.max(0, count - 1 + (outputs?.first ?? 0)), state.step));
}

/** A step that looks at nothing. */
const NOTHING = {
  row: [],
  exact: true,
  scores: null,
  shown: { keys: [], others: null },
  key: -1,
  lit: null,
  weighed: { by: "unknown" as const },
  context: null,
  summed: false,
};

export function momentOf(decode: Decode, state: State, draft: Draft | null, changes: readonly Change[]): Moment {
  const { look } = decode;
  const step = stepAt(decode, state);
  const own = decode.trace.outputs?.axis ?? look?.map.query ?? "";
  const single = !!decode.outputs?.single;
  const { about } = decode.trace;
  const writes = !decode.reads && decode.action === "write";
  // One output stands for all positions, whichever of them looks; of a ranker's candidates one is shown.
  const apart = (single && decode.action !== "score") || decode.reads;
  const given = isGiven(about, step);
  const ends = {
    writes,
    given,
    forced: writes && canBegin(about) && !given,
    likely: likelyAt(decode.outputs, step),
    written: apart ? null : outputAt(about, decode.trace.axis(own), step),
  };
  if (!look || !look.weights.rows) return { step, count: step + 1, ...NOTHING, ...ends };
  const at = step - look.map.step;
  const kept = look.weights.row(at);
  const row = draft?.row ?? kept;
  const hovered = state.hover && state.hover.step === step ? state.hover.key : null;
  const lit = draft?.key ?? hovered ?? state.key;
  const scores = decode.scores?.row(at) ?? null;
  const most = state.more["steps.all"] === true ? Infinity : MOST_ROWS;
  // Of a long output that is being written, what comes later is not there yet.
  const there = row.length > most ? Array.from(row).slice(0, sizeAt(decode, step)) : row;
  const shown = shownKeys(there, lit, most, look.weights.residual?.[at] ?? 0);
  const key = lit ?? heaviest(row);
  const place = placeOf(decode, step)!;
  const touching = changes.filter((change) => touches(change, place));
  const byHand = !!draft || touching.some((change) => change.kind !== "mask");
  const hidden = new Set(touching.flatMap(({ edit }) => (edit.edit === "mask" ? (edit.keys ?? []) : [])));
  // The scores are the model's own; what is hidden is left out of the softmax.
  const left = hidden.size && scores ? Array.from(scores, (e, i) => (hidden.has(i) ? -Infinity : e)) : scores;
  const weighed = weighedBy(decode, left, kept, key, byHand);
  return {
    step,
    count: at + 1,
    row,
    exact: look.weights.exact,
    scores,
    shown,
    key,
    lit,
    weighed,
    ...contextOf(decode, step, kept, draft),
    ...ends,
  };
}

function weighedBy(
  { look, trace }: Decode,
  scores: ArrayLike<number> | null,
  row: ArrayLike<number>,
  key: number,
  byHand: boolean,
): Weighed {
  if (byHand) return { by: "hand" };
  // A row that sees nothing has no weights that could be anything.
  if (!scores || !look || key < 0) return { by: "unknown" };
  if (isSoftmax(scores, row, look.weights.exact)) return { by: "softmax", score: scores[key]! };
  const told = trace.about.normalise;
  const name = told && typeof told === "object" ? (told as Record<string, unknown>)[look.site] : null;
  return { by: "other", name: typeof name === "string" ? name : null };
}

function contextOf(
  { read, context, look }: Decode,
  step: number,
  row: ArrayLike<number>,
  draft: Draft | null,
): Pick<Moment, "context" | "summed"> {
  const kept = vectorAt(context, step);
  if (!kept || !read || look?.weights.partial || read.values.columns !== kept.length)
    return { context: kept, summed: false };
  const summed = isSum(weightedSum(row, read.values, read.first), kept, look?.weights.exact);
  return { context: summed && draft ? weightedSum(draft.row, read.values, read.first) : kept, summed };
}
