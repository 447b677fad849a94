// What if it had looked elsewhere: rows as a hand changes them, edits as the model reads them, and what came of it.
import { aligned } from "./aligning";
import { isSpecial, number, short, wordAt } from "./labels";
import type { EditJson, LoadedTrace, PageAxis, Part } from "./types";

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

/** Hides one position, or all of a word's. */
export function maskKeys({ step, ...place }: Place, keys: number[], everywhere: boolean): Change {
  return { kind: "mask", edit: { edit: "mask", ...place, step: everywhere ? null : step, keys }, key: keys[0] ?? null };
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
    const { keys = [] } = edit;
    if (edit.edit === "mask" && other.edit === "set") {
      const row = keys.reduce((left, key) => dragged(left, key, 0, true), other.row ?? []);
      return keys.includes(change.key ?? -1) ? [] : [{ ...change, edit: { ...other, row } }];
    }
    if (edit.edit !== "mask") return other.edit === "mask" ? [change] : [];
    return other.edit === "mask" && other.keys?.every((key) => keys.includes(key)) ? [] : [change];
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
  const axis = trace.axis(map?.key ?? "");
  const token: Part = {
    token: short((kind === "mask" && textOf(axis, edit.keys)) || axis.labels[key ?? -1] || "", 24),
  };
  const when = edit.step === null ? "at every step" : `at step ${edit.step - (map?.step ?? 0) + 1}`;
  if (kind === "mask") return [token, ` is hidden ${when}`];
  if (kind === "even") return [`all weigh the same ${when}`];
  return [token, ` weighs ${number(edit.row?.[key ?? 0])} ${when}`];
}

/** What stands at these positions: of all of a word, the word. */
export function textOf(axis: PageAxis, keys: number[] = []): string {
  const { text, from, to } = wordAt(axis, keys[0] ?? -1);
  return keys.length === to - from ? text : keys.map((key) => axis.labels[key] ?? "").join(" ");
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

/** What was asked of the model. */
export interface Asked {
  /** what was typed; null: the page's own input */
  input: string | null;
  /** what a reader changed so far */
  changes: readonly Change[];
  /** what the output must begin with */
  prefix: string | null;
}

export interface Session extends Asked {
  /** the trace from before anything was changed */
  base: LoadedTrace;
  /** what stood before the last change; null: it is not known */
  before: Session | null;
}

// An answer remembers what it answered: a reader may leave the view, come back, and still take a change back.
const sessions = new WeakMap<LoadedTrace, Session>();

export function remember(trace: LoadedTrace, session: Session): void {
  sessions.set(trace, session);
}

export function sessionOf(trace: LoadedTrace): Session {
  return sessions.get(trace) ?? { base: trace, input: null, changes: [], prefix: null, before: null };
}

/** The session after a change. */
export function sessionWith(session: Session, change: Partial<Asked>): Session {
  return { ...session, ...change, before: session };
}

/** What stood before the last change: of one that an address brought, without the last of its changes. */
export function undone(session: Session): Session | null {
  const { before, changes, prefix } = session;
  if (before) return before;
  if (changes.length) return { ...session, changes: changes.slice(0, -1) };
  return prefix === null ? null : { ...session, prefix: null };
}

export function isChanged({ changes, prefix }: Asked): boolean {
  return changes.length > 0 || prefix !== null;
}

/** What the model is to be asked about a trace; null where that cannot be sent: a picture. */
export function askedOf({ about, axes }: Pick<LoadedTrace, "about" | "axes">): unknown {
  const heard = Object.values(axes).find((axis) => axis.kind === "frames");
  // A sound is asked about as the page plays it.
  const sound = heard?.audio && { base64: heard.audio.slice(heard.audio.indexOf(",") + 1) };
  const asked = about.asked ?? (heard ? sound : about.input);
  return typeof asked === "string" || (typeof asked === "object" && asked !== null) ? asked : null;
}
