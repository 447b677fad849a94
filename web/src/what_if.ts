// What if it had looked elsewhere: rows as a hand changes them, edits as the model reads them, and what came of it.
import { aligned } from "./aligning";
import { isSpecial, number, short } from "./labels";
import type { Answer, EditJson, Live, LoadedTrace, PageAxis, Part } from "./types";

/** The row after its weight at `key` became `value`. With `room` the others share the rest in their old proportion. */
export function dragged(row: ArrayLike<number>, key: number, value: number, room: boolean): number[] {
  const set = Math.min(1, Math.max(0, value));
  const next = Array.from(row, (weight) => (weight > 0 && Number.isFinite(weight) ? weight : 0));
  next[key] = set;
  if (!room) return next;
  const others = next.reduce((sum, weight, i) => (i === key ? sum : sum + weight), 0);
  // Where nobody else weighs anything there is no proportion to keep: they share alike.
  const share = (weight: number) =>
    others > 0 ? (weight / others) * (1 - set) : (1 - set) / Math.max(1, next.length - 1);
  return next.map((weight, i) => (i === key ? set : share(weight)));
}

export interface Change {
  kind: "drag" | "mask" | "even";
  edit: EditJson;
  /** the position that was dragged or masked */
  key: number | null;
}

export interface Place {
  site: string;
  head: number | null;
  step: number;
}

export function setRow(place: Place, row: ArrayLike<number>, key: number): Change {
  // Six digits say all that a hand can mean, and keep a request small.
  const kept = Array.from(row, (weight) => Number(weight.toFixed(6)));
  return { kind: "drag", edit: { edit: "set", ...place, row: kept }, key };
}

export function maskKey({ step, ...place }: Place, key: number, everywhere: boolean): Change {
  return { kind: "mask", edit: { edit: "mask", ...place, step: everywhere ? null : step, keys: [key] }, key };
}

/** All that may be seen weighs the same: the model knows best what that is at each step. */
export function evenRow({ step, ...place }: Place, everywhere: boolean): Change {
  return { kind: "even", edit: { edit: "even", ...place, step: everywhere ? null : step }, key: null };
}

/**
 * The changes with one more. A row has one state: setting it again, or making it even, replaces what it was; hiding a
 * position empties it there.
 */
export function withChange(changes: readonly Change[], next: Change): Change[] {
  const { edit } = next;
  const meets = (other: EditJson) =>
    other.site === edit.site && other.head === edit.head && (other.step === edit.step || edit.step === null);
  const others = changes.flatMap((change) => {
    const { edit: other } = change;
    if (!meets(other)) return [change];
    if (edit.edit === "mask" && other.edit === "set")
      return change.key === next.key
        ? []
        : [{ ...change, edit: { ...other, row: dragged(other.row ?? [], next.key ?? 0, 0, true) } }];
    if (edit.edit !== "mask") return other.edit === "mask" ? [change] : [];
    return other.edit === "mask" && change.key === next.key ? [] : [change];
  });
  return [...others, next];
}

/** Whether a change touches this row of this place. */
export function touches({ edit }: Change, { site, head, step }: Place): boolean {
  return (
    edit.site === site &&
    (edit.head === null || head === null || edit.head === head) &&
    (edit.step === null || edit.step === step)
  );
}

/** "At step 7 *maio* weighs 0.20." */
export function saidOf({ kind, edit, key }: Change, trace: LoadedTrace): Part[] {
  const map = trace.maps.find(({ site }) => site === edit.site);
  const token: Part = { token: short(trace.axis(map?.key ?? "").labels[key ?? -1] ?? "", 24) };
  const when = edit.step === null ? "at every step" : `at step ${edit.step - (map?.step ?? 0) + 1}`;
  if (kind === "mask") return [token, ` is hidden ${when}`];
  if (kind === "even") return [`all weigh the same ${when}`];
  return [token, ` weighs ${number(edit.row?.[key ?? 0])} ${when}`];
}

// What was written ----------------------------------------------------------------------------------------------------

/** The tokens of an output as they read, one after the other; markers are left out. */
export function pieces(axis: PageAxis, from = 0, to = axis.labels.length): string[] {
  const letters = axis.text ? [...axis.text] : null;
  const between = letters ? "" : gapOf(axis);
  let end = from > 0 ? (axis.spans?.[from - 1]?.[1] ?? 0) : 0;
  return axis.labels.slice(from, to).flatMap((label, i) => {
    if (isSpecial(axis, from + i)) return [];
    const span = letters && axis.spans?.[from + i];
    if (!span || span[1] < end) return [(i ? between : "") + plainLabel(label)];
    // What stands between two tokens (a space) belongs to the second.
    const piece = letters.slice(end, span[1]).join("");
    end = span[1];
    return [piece];
  });
}

/** What stands between tokens that do not say so: nothing between characters and word parts, a space between words. */
function gapOf(axis: PageAxis): string {
  const own = axis.labels.filter((_, i) => !isSpecial(axis, i));
  const marked = own.some((label) => plainLabel(label) !== label);
  return marked || own.every((label) => [...label].length <= 1) ? "" : " ";
}

/** A label without the marks that vocabularies use for spaces and for word parts. */
function plainLabel(label: string): string {
  return label
    .replace(/^[▁Ġ]/, " ")
    .replace(/(@@|<\/w>)$/, "")
    .replace(/^##/, "");
}

/** The beginning that makes the model write `label` at `step` after what it wrote before. */
export function prefixOf(axis: PageAxis, step: number, label: string): string {
  const before = pieces(axis, 0, step).join("");
  const start = axis.spans?.[step]?.[0];
  const known = axis.text !== undefined && start !== undefined;
  const words = known ? [...axis.text!][start - 1] === " " : gapOf(axis) === " ";
  const next = plainLabel(label);
  return before && words && !/^\s/.test(next) && !/\s$/.test(before) && !label.startsWith("##")
    ? `${before} ${next}`
    : before + next;
}

/** Which entries of either list have no partner in the other, in order. */
export function differing(
  before: readonly string[],
  after: readonly string[],
): { before: boolean[]; after: boolean[] } {
  const told = { before: before.map(() => true), after: after.map(() => true) };
  for (const [a, b] of aligned(before, after))
    if (a >= 0 && b >= 0 && before[a] === after[b]) told.before[a] = told.after[b] = false;
  return told;
}

// What stands now -----------------------------------------------------------------------------------------------------

/** What a reader changed so far, and the trace from before they changed anything. */
export interface Session {
  base: LoadedTrace;
  changes: readonly Change[];
  /** what the output must begin with */
  prefix: string | null;
}

// An answer remembers what it answered: a reader may leave the view, come back, and still take a change back.
const sessions = new WeakMap<LoadedTrace, Session>();

export function sessionOf(trace: LoadedTrace): Session {
  return sessions.get(trace) ?? { base: trace, changes: [], prefix: null };
}

export function isChanged({ changes, prefix }: Session): boolean {
  return changes.length > 0 || prefix !== null;
}

/** Asks the model what it writes under these changes, and shows that; without any, what was there before. */
export async function apply(live: Live, session: Session): Promise<Answer | null> {
  const place = live.place();
  if (!isChanged(session)) {
    live.show(session.base, place);
    return null;
  }
  const { input } = session.base.about;
  const answer = await live.ask({
    input: typeof input === "string" ? input : "",
    edits: session.changes.map((change) => change.edit),
    prefix: session.prefix,
  });
  if (!answer.trace) throw new Error("The model answered without a trace, so there is nothing to show.");
  sessions.set(answer.trace, session);
  live.show(answer.trace, place);
  return answer;
}
