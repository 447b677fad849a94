// A sound and what was written from it, over one line of time: the spectrogram above, a row a letter below.
import type { Scale } from "../scale";
import type { Colours } from "../colours";
import { number, short } from "../labels";
import { fitted, type Pen, textWidth } from "../pen";
import type { Matrix, PageAxis } from "../types";

export interface Sound {
  axis: PageAxis;
  /** bands × frames, the lowest band first */
  bands: { values: ArrayLike<number>; rows: number; columns: number } | null;
  labels: string[];
  weights: Matrix;
  scale: Scale;
}

export interface Plan {
  width: number;
  height: number;
  left: number;
  /** pixels of the time line */
  span: number;
  /** pixels for the names of segments, over the spectrogram */
  names: number;
  above: number;
  top: number;
  row: number;
}

const ABOVE = 120;
const GAP = 8;
const NAMES = 20;
const BELOW = 26;

export function planOf({ axis, labels, bands }: Sound, width: number, tallest: number): Plan {
  const wide = labels.reduce((most, label) => Math.max(most, textWidth(short(label, 12))), 0);
  const left = Math.min(88, Math.ceil(wide) + 12);
  const names = axis.seconds && axis.segments?.length ? NAMES : 0;
  const above = bands ? ABOVE : 0;
  const top = names + above + (bands ? GAP : 0);
  const row = Math.max(12, Math.min(26, Math.floor((tallest - top - BELOW) / Math.max(1, labels.length))));
  return {
    width,
    height: top + row * labels.length + BELOW,
    left,
    span: Math.max(1, width - left - 1),
    names,
    above,
    top,
    row,
  };
}

/** A row of −1 is the spectrogram, a frame of −1 the label of a row. */
export interface Spot {
  row: number;
  frame: number;
}

export function spotAt(plan: Plan, { labels, weights }: Sound, x: number, y: number): Spot | null {
  const frame = Math.floor(((x - plan.left) / plan.span) * weights.columns);
  const row = Math.floor((y - plan.top) / plan.row);
  if (row >= labels.length || frame >= weights.columns || y < 0 || (row < 0 && frame < 0)) return null;
  return { row: row < 0 ? -1 : row, frame: Math.max(-1, frame) };
}

export interface Highlight {
  row: number;
  hover: Spot | null;
  locked: Spot | null;
  /** the frame that was asked about in the spectrogram; null: none */
  asked: number | null;
  colours: Colours;
}

export function drawSound(
  pen: Pen,
  plan: Plan,
  sound: Sound,
  pictures: { bands: ImageData | null; weights: ImageData },
  { row, hover, locked, asked, colours }: Highlight,
): void {
  const { left, span, above, top, row: high } = plan;
  const { labels, weights } = sound;
  if (pictures.bands) pen.pixels(pictures.bands, left, plan.names, span, above);
  pen.pixels(pictures.weights, left, top, span, labels.length * high);
  if (pictures.bands && row >= 0) heard(pen, plan, sound, row, colours);
  segments(pen, plan, sound, colours);
  const lookers = new Set(asked === null ? [] : lookedAt(weights, asked));
  labels.forEach((label, i) =>
    pen.text(fitted(short(label, 12), left - 12), left - 10, top + (i + 0.5) * high, {
      fill: lookers.has(i) || (i === row && asked === null) ? colours.accent : colours.ink,
      align: "right",
      bold: lookers.has(i) || (i === row && asked === null),
    }),
  );
  pen.frame(left - 0.5, top - 0.5, span + 1, labels.length * high + 1, colours.line, 1);
  if (row >= 0) pen.frame(left, top + row * high, span, high, colours.accent, 1);
  const cell = span / Math.max(1, weights.columns);
  const mark = (spot: Spot | null, colour: string, thick: number) => {
    if (!spot || spot.frame < 0) return;
    const x = left + (spot.frame + 0.5) * cell;
    pen.line(x, 0, x, top + labels.length * high, colour, 1);
    if (spot.row >= 0)
      pen.frame(x - Math.max(cell, 5) / 2, top + spot.row * high, Math.max(cell, 5), high, colour, thick);
  };
  mark(asked === null ? null : { row: -1, frame: asked }, colours.accent, 1);
  lookers.forEach((each) => mark({ row: each, frame: asked! }, colours.accent, 2));
  mark(locked, colours.accent, 2);
  mark(hover, colours.quiet, 1);
  ticks(pen, plan, sound, colours);
}

/** Over the spectrogram, the frames that a row listened to: a bar per frame, as high as its share of the largest weight. */
function heard(pen: Pen, { left, span, above, names }: Plan, { weights }: Sound, row: number, colours: Colours): void {
  const values = weights.row(row);
  const largest = values.reduce((most, value) => (value > most && value !== Infinity ? value : most), 0);
  const cell = span / Math.max(1, weights.columns);
  const tall = 0.3 * above;
  weights.entries(row, (frame, value) => {
    if (!(value > 0.02 * largest) || value === Infinity) return;
    const height = (tall * value) / largest;
    pen.rect(left + frame * cell, names + above - height, Math.max(cell, 1), height, colours.accent);
  });
}

/** The stretches that are known to be right: names over the spectrogram, ends as lines over all. */
function segments(pen: Pen, plan: Plan, { axis, labels, weights }: Sound, colours: Colours): void {
  const { left, span, names, top, row } = plan;
  if (!names) return;
  const place = (seconds: number) => ((seconds - (axis.start ?? 0)) / (weights.columns * axis.seconds!)) * span;
  for (const [symbol, start, end] of axis.segments!) {
    const [from, to] = [Math.max(0, place(start)), Math.min(span, place(end))];
    if (!(to > 0 && from < span)) continue;
    for (const x of [left + from, left + to]) {
      pen.line(x, names - 4, x, top - GAP, colours.quiet, 0.5);
      pen.line(x, top, x, top + labels.length * row, colours.line, 1);
    }
    const text = symbol.trim() && short(symbol, 12);
    if (text && textWidth(text) <= to - from)
      pen.text(text, left + (from + to) / 2, names / 2, { fill: colours.quiet, align: "center" });
  }
}

/** The rows that looked at a frame, the greatest weight first: those that gave it a tenth of their largest, five at most. */
export function lookedAt(weights: Matrix, frame: number): number[] {
  const found: [number, number][] = [];
  for (let row = 0; row < weights.rows; row++) {
    const value = weights.at(row, frame);
    if (!(value > 0) || value === Infinity) continue;
    const largest = weights.row(row).reduce((most, each) => (each > most && each !== Infinity ? each : most), 0);
    if (value >= 0.1 * largest) found.push([value, row]);
  }
  return found
    .sort(([one], [other]) => other - one)
    .slice(0, 5)
    .map(([, row]) => row);
}

/** 1, 2 or 5 times a power of ten, so that ticks stand at least `least` pixels apart. */
export function tickStep(total: number, span: number, least = 64): number {
  const rough = (total / Math.max(1, span)) * least;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  return power * ([1, 2, 5].find((times) => times * power >= rough) ?? 10);
}

function ticks(pen: Pen, plan: Plan, { axis, labels, weights }: Sound, colours: Colours): void {
  const total = weights.columns * (axis.seconds || 1);
  const step = axis.seconds ? tickStep(total, plan.span) : Math.max(1, tickStep(total, plan.span));
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const y = plan.top + labels.length * plan.row;
  const start = axis.start ?? 0;
  const first = Math.ceil(start / step - 1e-9);
  for (let i = first; i * step - start <= total + 1e-9; i++) {
    const x = plan.left + ((i * step - start) / total) * plan.span;
    pen.line(x, y, x, y + 4, colours.quiet, 1);
    const text = `${(i * step).toFixed(digits)}${axis.seconds ? " s" : ""}`;
    const align = x - textWidth(text) / 2 < 0 ? "left" : x + textWidth(text) / 2 > plan.width ? "right" : "center";
    pen.text(text, x, y + 15, { fill: colours.quiet, align });
  }
}

/** Rows × frames as pixels, as many across as the screen has at most: the largest of those that share one shows. */
export function weightsPicture({ weights, labels, scale }: Sound, across: number, colours: Colours): ImageData {
  const width = Math.max(1, Math.min(weights.columns, Math.round(across)));
  const pixels = new ImageData(width, Math.max(1, labels.length));
  for (let row = 0; row < weights.rows && row < labels.length; row++) {
    const line = new Float32Array(width);
    weights.entries(row, (frame, value) => {
      const x = Math.min(width - 1, Math.floor((frame * width) / weights.columns));
      // What is not a number wins, so that it is seen.
      if (!(value <= line[x]!)) line[x] = value;
    });
    line.forEach((value, x) =>
      put(pixels, row * width + x, Number.isFinite(value) ? scale.strength(row, value) : NaN, colours),
    );
  }
  return pixels;
}

export function bandsPicture(bands: NonNullable<Sound["bands"]>, colours: Colours): ImageData {
  const { values, rows, columns } = bands;
  const pixels = new ImageData(Math.max(1, columns), Math.max(1, rows));
  const [low, high] = rangeOf(values);
  for (let band = 0; band < rows; band++)
    for (let frame = 0; frame < columns; frame++) {
      const value = (values[band * columns + frame]! - low) / (high - low || 1);
      put(pixels, (rows - 1 - band) * columns + frame, 0.8 * value, colours);
    }
  return pixels;
}

/** From nearly silent to nearly the loudest: single odd numbers do not set the scale. */
function rangeOf(values: ArrayLike<number>): [number, number] {
  const every = Math.max(1, Math.floor(values.length / 20000));
  const some: number[] = [];
  for (let i = 0; i < values.length; i += every) if (Number.isFinite(values[i])) some.push(values[i]!);
  some.sort((one, other) => one - other);
  return [some[Math.floor(some.length * 0.1)] ?? 0, some[Math.floor(some.length * 0.998)] ?? 1];
}

function put(pixels: ImageData, at: number, strength: number, colours: Colours): void {
  // Not a number has no place on the scale: the colour of what is quiet stands for it.
  const i = Number.isFinite(strength) ? 3 * Math.round(255 * Math.max(0, Math.min(1, strength))) : -1;
  const colour = i < 0 ? [128, 128, 128, 160] : [colours.scale[i]!, colours.scale[i + 1]!, colours.scale[i + 2]!, 255];
  pixels.data.set(colour, 4 * at);
}

/** The frames around one at which a row still looks: those above a tenth of its largest weight. */
export function stretchOf(weights: Matrix, row: number, frame: number): [number, number] {
  const values = weights.row(row);
  const least = 0.1 * values.reduce((most, value) => (value > most && value !== Infinity ? value : most), 0);
  let [from, to] = [frame, frame + 1];
  if (!(values[frame]! >= least) || least === 0) return [from, to];
  while (from > 0 && values[from - 1]! >= least) from--;
  while (to < values.length && values[to]! >= least) to++;
  return [from, to];
}

/** The stretch that is played of a row: many look at the onset alone, so on to where the next one looks, `linger` at most. */
export function playedOf(weights: Matrix, row: number, frame: number, linger: number): [number, number] {
  const [from, to] = stretchOf(weights, row, frame);
  if (row + 1 >= weights.rows) return [from, Math.min(weights.columns, to + linger)];
  const next = weights.row(row + 1);
  const at = next.indexOf(next.reduce((most, value) => (value > most && value !== Infinity ? value : most), 0));
  return [from, at < 0 ? to : Math.max(to, Math.min(stretchOf(weights, row + 1, at)[0], to + linger))];
}

/** For each frame the row that looked at it most; −1: none did. */
export function writtenAt(weights: Matrix): Int32Array {
  const rows = new Int32Array(weights.columns).fill(-1);
  const most = new Float32Array(weights.columns);
  for (let row = 0; row < weights.rows; row++)
    weights.entries(row, (frame, value) => {
      if (value > most[frame]! && Number.isFinite(value)) [most[frame], rows[frame]] = [value, row];
    });
  return rows;
}

export function timeOf(axis: PageAxis, frame: number): string {
  return axis.seconds ? `${number((axis.start ?? 0) + frame * axis.seconds)} s` : `frame ${frame + 1}`;
}
