// Labels a reader can see and trust, and words made of subwords.
import type { PageAxis } from "./types";

/** No picture needs more of a token than this; the table and the readout cut it too and say so with an ellipsis. */
const LONGEST = 80;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Cs}]/u;
const MARK = /^\p{M}/u;
const JOINERS = "\u200c\u200d\ufe0f";

/** A label with nothing invisible left in it: ␣ for spaces at its ends, ∅ for nothing, ␊ for a line's end. */
export function visible(label: string): string {
  if (!label) return "∅";
  const [, before = "", core = "", after = ""] = /^( *)([^]*?)( *)$/.exec(label.slice(0, 4 * LONGEST)) ?? [];
  const letters = [...core];
  const shown = letters.map((letter) => shownLetter(letter, letters.length === 1)).join("");
  return "␣".repeat(before.length) + (MARK.test(shown) ? "◌" : "") + shown + "␣".repeat(after.length);
}

function shownLetter(letter: string, alone: boolean): string {
  const code = letter.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  if (/\p{Zs}/u.test(letter)) return alone ? "␣" : " ";
  // Joiners shape the letters around them and emoji families; they move nothing else.
  if (JOINERS.includes(letter) && !alone) return letter;
  return HIDDEN.test(letter) ? `U+${code.toString(16).toUpperCase().padStart(4, "0")}` : letter;
}

/** The label made visible and cut to at most `length` characters, … standing for the rest. */
export function short(label: string, length = LONGEST): string {
  const letters = [...visible(label)];
  return letters.length <= length && label.length <= 4 * LONGEST
    ? letters.join("")
    : `${letters.slice(0, Math.max(1, length - 1)).join("")}…`;
}

/** Whether a position holds a marker such as <eos> rather than text. */
export function isSpecial(axis: PageAxis, position: number): boolean {
  if (axis.special?.length) return axis.special.includes(position);
  return axis.kind === "tokens" && /^<[^ <>]+>$/.test(axis.labels[position] ?? "");
}

export function hasSpecial(axis: PageAxis): boolean {
  return axis.labels.some((_, position) => isSpecial(axis, position));
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const ENOUGH = 400; // labels that tell a script

/** Whether these run from right to left: most of their letters do. Markers (<eos>) belong to no script. */
export function runsLeft(labels: readonly string[]): boolean {
  let letters = 0;
  for (const label of labels.slice(0, ENOUGH)) {
    if (/^<[^ <>]+>$/.test(label)) continue;
    for (const [letter] of label.slice(0, LONGEST).matchAll(/\p{L}/gu)) letters += RIGHT_TO_LEFT.test(letter) ? 1 : -1;
  }
  return letters > 0;
}

/** Whether several positions share a word, so that grouping them changes the picture. */
export function hasWords(axis: PageAxis): boolean {
  const words = axis.words;
  return !!words && words.length === axis.labels.length && words.some((word, i) => i > 0 && word === words[i - 1]);
}

/** What is drawn of an axis: groups of neighbouring positions, each with its label. */
export interface Line {
  labels: string[];
  /** the first position of each group, and one past its last */
  from: Int32Array;
  to: Int32Array;
  /** the group of each position; −1: hidden */
  group: Int32Array;
  /** true: each group is one position and none from the first on is hidden */
  plain: boolean;
}

export interface Showing {
  special: boolean;
  words: boolean;
}

/** Positions `start` … `end` of an axis as they are shown: markers hidden unless `special`, subwords together when `words`. */
export function lineOf(axis: PageAxis, options: Showing, start = 0, end = axis.labels.length): Line {
  const { labels } = axis;
  const grouped = options.words && hasWords(axis);
  const hidden = options.special ? new Set<number>() : specials(axis);
  const from: number[] = [];
  const to: number[] = [];
  const group = new Int32Array(labels.length).fill(-1);
  labels.forEach((_, position) => {
    if (hidden.has(position) || position < start || position >= end) return;
    const last = from.length - 1;
    const joins = grouped && last >= 0 && to[last] === position && axis.words![position] === axis.words![position - 1];
    if (joins) to[last] = position + 1;
    else {
      from.push(position);
      to.push(position + 1);
    }
    group[position] = from.length - 1;
  });
  // Hiding everything would leave nothing to look at.
  if (!from.length && end > start && hidden.size) return lineOf(axis, { ...options, special: true }, start, end);
  const names = from.map((first, i) => (to[i]! - first === 1 ? labels[first]! : joined(axis, first, to[i]!)));
  return {
    labels: names,
    from: Int32Array.from(from),
    to: Int32Array.from(to),
    group,
    plain: from.length === end - start,
  };
}

function specials(axis: PageAxis): Set<number> {
  if (axis.special?.length) return new Set(axis.special);
  return new Set(axis.labels.flatMap((_, position) => (isSpecial(axis, position) ? [position] : [])));
}

/** The text of several tokens: as it stands in the text where the axis knows, else the labels without their marks. */
function joined(axis: PageAxis, first: number, end: number): string {
  const start = axis.spans?.[first]?.[0];
  const stop = axis.spans?.[end - 1]?.[1];
  // Python counts code points where JavaScript counts halves of pairs.
  if (axis.text && start !== undefined && stop !== undefined && stop > start)
    return [...axis.text].slice(start, stop).join("").trim() || "␣";
  return axis.labels
    .slice(first, end)
    .map((label) => label.replace(/^(##|▁|Ġ)|(@@|<\/w>)$/g, ""))
    .join("");
}

/** The word around a position: where its neighbours belong to it, else where letters or digits go on. */
export function wordAt(axis: PageAxis, position: number): { text: string; from: number; to: number } {
  const { labels, words } = axis;
  const label = labels[position] ?? "";
  const knows = !!words && words.length === labels.length;
  if (axis.kind !== "tokens" || isSpecial(axis, position) || (!knows && (!kindOf(label) || !isCharacters(axis))))
    return { text: label, from: position, to: position + 1 };
  const same = (i: number) =>
    !isSpecial(axis, i) && (knows ? words![i] === words![position] : kindOf(labels[i]!) === kindOf(label));
  let from = position;
  let to = position + 1;
  while (from > 0 && same(from - 1)) from--;
  while (to < labels.length && same(to)) to++;
  return { text: to - from === 1 ? label : joined(axis, from, to), from, to };
}

const characters = new WeakMap<PageAxis, boolean>();

/** Whether the tokens are characters, markers aside: "I" between words is a word. */
function isCharacters(axis: PageAxis): boolean {
  let found = characters.get(axis);
  if (found === undefined) {
    const text = axis.labels.filter((_, position) => !isSpecial(axis, position));
    found = text.every((label) => [...label.normalize("NFC")].length <= 2) && text.length > 0;
    characters.set(axis, found);
  }
  return found;
}

/** Single characters only: a letter, a digit, or "" for what is a word by itself. */
function kindOf(label: string): string {
  if ([...label.normalize("NFC")].length !== 1) return "";
  return /[\p{L}\p{M}]/u.test(label) ? "letter" : /\p{N}/u.test(label) ? "digit" : "";
}

const LEAST = 0.001; // what is smaller is told as that

/** A number of a trace for a reader: few digits, "< 0.001" for less, ≈ where it was rounded, – where it is none. */
export function number(value: number | null | undefined, exact = true, digits = 2): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text: string;
  if (value === 0) text = "0";
  else if (size < LEAST) return value > 0 ? `<\u00a0${LEAST}` : `>\u00a0−${LEAST}`;
  else if (size < 0.5 * 10 ** -digits) text = value.toPrecision(1);
  else if (size >= 1e9) text = value.toExponential(digits).replace("e+", "e");
  else text = size >= 1000 ? Math.round(value).toLocaleString("en").replace(/,/g, "\u202f") : value.toFixed(digits);
  return (exact ? "" : "≈") + text.replace(/^-/, "−");
}

/** What stands before a number in an equation: what is only told as less than another needs no equals sign. */
export function equals(value: string): string {
  return /^[<>]/.test(value) ? " " : " = ";
}

/** 272703 → 273 K, 1200000 → 1.2 M. */
export function amount(count: number): string {
  for (const [unit, name] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "K"],
  ] as const) {
    if (count >= unit * 0.9995)
      return `${(count / unit).toPrecision(count / unit >= 99.95 ? 3 : 2).replace(/\.0$/, "")}\u202f${name}`;
  }
  return String(count);
}

/** exact_match → exact match; what is short for something stands in capitals: bleu → BLEU */
export function spoken(name: string): string {
  return name
    .replace(/[_.]+/g, " ")
    .replace(/\b(aer|auc|bleu|cer|chrf|f1|map|mrr|per|ter|wer)\b/g, (short) =>
      short.toUpperCase().replace("CHRF", "chrF"),
    );
}
