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
  above: number;
  top: number;
  row: number;
}

const ABOVE = 120;
const GAP = 8;
const BELOW = 26;

export function planOf({ labels, bands }: Sound, width: number, tallest: number): Plan {
  const wide = labels.reduce((most, label) => Math.max(most, textWidth(short(label, 12))), 0);
  const left = Math.min(88, Math.ceil(wide) + 12);
  const above = bands ? ABOVE : 0;
  const top = above + (bands ? GAP : 0);
  const row = Math.max(12, Math.min(26, Math.floor((tallest - top - BELOW) / Math.max(1, labels.length))));
  return {
    width,
    height: top + row * labels.length + BELOW,
    left,
    span: Math.max(1, width - left - 1),
    above,
    top,
    row,
  };
}

export interface Spot {
  row: number;
  frame: number;
}

export function spotAt(plan: Plan, { labels, weights }: Sound, x: number, y: number): Spot | null {
  const frame = Math.floor(((x - plan.left) / plan.span) * weights.columns);
  const row = Math.floor((y - plan.top) / plan.row);
  if (row >= labels.length || frame >= weights.columns || y < 0) return null;
  return { row: row < 0 ? -1 : row, frame: Math.max(0, frame) };
}

export interface Highlight {
  row: number;
  hover: Spot | null;
  locked: Spot | null;
  colours: Colours;
}

export function drawSound(
  pen: Pen,
  plan: Plan,
  sound: Sound,
  pictures: { bands: ImageData | null; weights: ImageData },
  { row, hover, locked, colours }: Highlight,
): void {
  const { left, span, above, top, row: high } = plan;
  const { labels, weights } = sound;
  if (pictures.bands) pen.pixels(pictures.bands, left, 0, span, above);
  pen.pixels(pictures.weights, left, top, span, labels.length * high);
  labels.forEach((label, i) =>
    pen.text(fitted(short(label, 12), left - 12), left - 10, top + (i + 0.5) * high, {
      fill: i === row ? colours.accent : colours.ink,
      align: "right",
      bold: i === row,
    }),
  );
  pen.frame(left - 0.5, top - 0.5, span + 1, labels.length * high + 1, colours.line, 1);
  if (row >= 0) pen.frame(left, top + row * high, span, high, colours.accent, 1);
  const cell = span / Math.max(1, weights.columns);
  const mark = (spot: Spot | null, colour: string, thick: number) => {
    if (!spot) return;
    const x = left + (spot.frame + 0.5) * cell;
    pen.line(x, 0, x, top + labels.length * high, colour, 1);
    if (spot.row >= 0)
      pen.frame(x - Math.max(cell, 5) / 2, top + spot.row * high, Math.max(cell, 5), high, colour, thick);
  };
  mark(locked, colours.accent, 2);
  mark(hover, colours.quiet, 1);
  ticks(pen, plan, sound, colours);
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
  for (let i = 0; i * step <= total + 1e-9; i++) {
    const x = plan.left + ((i * step) / total) * plan.span;
    pen.line(x, y, x, y + 4, colours.quiet, 1);
    const text = `${(i * step).toFixed(digits)}${axis.seconds ? " s" : ""}`;
    const align = i === 0 ? "left" : x + textWidth(text) / 2 > plan.width ? "right" : "center";
    pen.text(text, i === 0 ? plan.left : x, y + 15, { fill: colours.quiet, align });
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
  return axis.seconds ? `${number(frame * axis.seconds)} s` : `frame ${frame + 1}`;
}
