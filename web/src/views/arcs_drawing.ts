// Tokens and the arcs between them: two columns where one axis looks at another, one line where it looks at itself.
import type { Colours } from "../colours";
import { number, short } from "../labels";
import { type Curve, fitted, type Pen, textWidth } from "../pen";
import type { Matrix } from "../types";
import type { Arcs } from "./arcs_choice";

export interface Token {
  side: "query" | "key";
  /** row of the matrix, or column */
  at: number;
}

export interface Scene {
  /** one line: what looks and what is looked at are the same tokens, named by columns */
  isLine: boolean;
  matrix: Matrix;
  rowLabels: string[];
  columnLabels: string[];
  /** the column of the token that row r is; only where all is one line */
  columnOf(row: number): number;
  rowOf(column: number): number;
}

export interface Frame {
  width: number;
  /** of the window on the tokens, and of all tokens */
  height: number;
  all: number;
  line: number;
  /** where labels of queries end and those of keys begin; in one line where the labels begin and end */
  left: number;
  right: number;
  /** pixels scrolled away, on either side */
  queryTop: number;
  keyTop: number;
  /** how far arcs reach out to the side of one line */
  reach: number;
}

const LINE = 24;
const TIGHT = 15; // the least, so that a whole sentence stands in the window
const LEAST = 13; // a label needs it
const WIDEST = 150;
const SPAN = 1000; // pixels between two columns at most
const REACH = 300;
const SAMPLE = 400;

function widest(labels: string[], most: number): number {
  const every = Math.max(1, Math.floor(labels.length / SAMPLE));
  let found = 24;
  for (let i = 0; i < labels.length; i += every)
    found = Math.max(found, textWidth(short(labels[i]!, 60), undefined, true));
  return Math.ceil(Math.min(most, found)) + 12;
}

export function frameOf(scene: Scene, width: number, tallest: number, scrolled: number): Frame {
  const most = Math.min(WIDEST, width * 0.3);
  const { rowLabels, columnLabels } = scene;
  const count = scene.isLine ? columnLabels.length : Math.max(rowLabels.length, columnLabels.length);
  // A list that scrolls even so is read in comfort.
  const fitting = Math.floor((tallest - 8) / Math.max(1, count));
  const line = fitting < TIGHT ? LINE : Math.min(LINE, fitting);
  const all = count * line + 8;
  const height = Math.min(all, tallest);
  const share = all > height ? Math.max(0, Math.min(1, scrolled / (all - height))) : 0;
  const top = (labels: string[]) => Math.round(share * Math.max(0, labels.length * line + 8 - height));
  const room = {
    height,
    all,
    line,
    queryTop: top(scene.isLine ? columnLabels : rowLabels),
    keyTop: top(columnLabels),
  };
  if (scene.isLine) {
    const label = widest(columnLabels, most);
    const reach = Math.floor(Math.max(40, Math.min(REACH, (width - label) / 2 - 4)));
    return { ...room, width: Math.min(width, 2 * reach + label + 8), left: reach + 4, right: reach + 4 + label, reach };
  }
  const left = widest(rowLabels, most);
  // A number stands beside a key that is looked at.
  const aside = widest(columnLabels, most) + 44;
  const right = Math.floor(Math.max(left + 40, Math.min(left + SPAN, width - aside)));
  return { ...room, width: Math.min(width, right + aside), left, right, reach: 0 };
}

const MOST_LINES = 300;
const WRITTEN = 18; // pixels a line, of a list that scrolls on the page

/** All tokens, as the picture leaves the page: above 300 their lines move together, and every second or third is named. */
export function wholeOf(scene: Scene, f: Frame): Frame {
  const count = Math.max(scene.columnLabels.length, scene.isLine ? 0 : scene.rowLabels.length);
  const line = f.all > f.height ? Math.min(WRITTEN, (WRITTEN * MOST_LINES) / count) : f.line;
  const all = Math.ceil(count * line + 8);
  return { ...f, line, all, height: all, queryTop: 0, keyTop: 0 };
}

export function tokenAt(scene: Scene, f: Frame, x: number, y: number): Token | null {
  const pick = (side: Token["side"], top: number, count: number): Token | null => {
    const at = Math.floor((y - 4 + top) / f.line);
    return at >= 0 && at < count ? { side, at } : null;
  };
  if (scene.isLine)
    return x > f.left - 12 && x < f.right + 12 ? pick("key", f.keyTop, scene.columnLabels.length) : null;
  if (x < f.left + 24) return pick("query", f.queryTop, scene.rowLabels.length);
  return x > f.right - 24 ? pick("key", f.keyTop, scene.columnLabels.length) : null;
}

/** Ends that are far out of the window are drawn nearer, or their arcs would run along its edge. */
function nearby(f: Frame, y: number): number {
  return Math.max(-1.5 * f.height, Math.min(2.5 * f.height, y));
}

export function queryY(scene: Scene, f: Frame, row: number): number {
  return 4 + ((scene.isLine ? scene.columnOf(row) : row) + 0.5) * f.line - f.queryTop;
}

export function keyY(f: Frame, column: number): number {
  return 4 + (column + 0.5) * f.line - f.keyTop;
}

/** Rows of the matrix whose tokens are in the window. */
export function rowsInView(scene: Scene, f: Frame): number[] {
  const first = Math.max(0, Math.floor((f.queryTop - 4) / f.line));
  const last = Math.min(
    scene.isLine ? scene.columnLabels.length : scene.rowLabels.length,
    Math.ceil((f.queryTop + f.height) / f.line),
  );
  const rows: number[] = [];
  for (let i = first; i < last; i++) rows.push(scene.isLine ? scene.rowOf(i) : i);
  return rows.filter((row) => row >= 0 && row < scene.matrix.rows);
}

export interface Shown {
  arcs: Arcs;
  /** arcs to draw, of which `out` leave and `into` reach the token in focus */
  drawn: ArrayLike<number>;
  out: number[];
  into: number[];
  focus: Token | null;
  /** a token that is marked without its arcs */
  here?: Token | null;
}

const CROWD = 300 / 480; // arcs for each pixel downwards

/** How much thinner and paler each of so many arcs is in a picture so high: many must not become one patch. */
function thinned(count: number, height: number): number {
  return Math.max(0.15, Math.min(1, Math.sqrt((CROWD * height) / Math.max(1, count))));
}

export function draw(pen: Pen, scene: Scene, f: Frame, shown: Shown, colours: Colours): void {
  const { arcs, out, into, focus } = shown;
  const thin = thinned(shown.drawn.length, f.height);
  const calm = Math.sqrt(thin) * (!focus ? 1 : colours.dark ? 0.2 : 0.1);
  const ink = colours.shade(0.8);
  pen.within(0, 0, f.width, f.height, () => {
    for (let i = 0; i < shown.drawn.length; i++) arc(pen, scene, f, arcs, shown.drawn[i]!, ink, calm, thin);
    for (const each of [...into].reverse())
      arc(pen, scene, f, arcs, each, scene.isLine ? colours.ink : colours.accent, 1);
    for (const each of [...out].reverse()) arc(pen, scene, f, arcs, each, colours.accent, 1);
    labels(pen, scene, f, shown, colours);
  });
}

function arc(pen: Pen, scene: Scene, f: Frame, arcs: Arcs, i: number, ink: string, calm: number, thin = 1): void {
  const strength = arcs.weight[i]! / (arcs.largest || 1);
  const [row, column] = [arcs.row[i]!, arcs.column[i]!];
  const [from, to] = [nearby(f, queryY(scene, f, row)), nearby(f, keyY(f, column))];
  const points = scene.isLine ? beside(f, from, to) : between(f, from, to);
  pen.curve(points, ink, thin * (0.75 + 3.5 * strength), calm * (0.1 + 0.9 * strength ** 0.8));
}

function between(f: Frame, from: number, to: number): Curve {
  const [x1, x2] = [f.left + 4, f.right - 4];
  const pull = (x2 - x1) * 0.45;
  return [x1, from, x1 + pull, from, x2 - pull, to, x2, to];
}

/** Back to earlier tokens at the left, on to later ones at the right, a small loop to itself. */
function beside(f: Frame, from: number, to: number): Curve {
  if (from === to) return [f.right, from - 4, f.right + 20, from - 8, f.right + 20, from + 8, f.right, from + 4];
  const far = Math.abs(to - from);
  const out = 1.3 * f.reach * (1 - Math.exp(-far / (1.6 * f.reach)));
  const x = to < from ? f.left : f.right;
  const pull = to < from ? x - out : x + out;
  return [x, from, pull, from, pull, to, x, to];
}

function labels(pen: Pen, scene: Scene, f: Frame, shown: Shown, colours: Colours): void {
  const { focus } = shown;
  const mark = focus ?? shown.here;
  const linked = linkedBy(shown);
  const every = Math.ceil(LEAST / f.line);
  const write = (side: Token["side"], at: number, label: string, y: number) => {
    if (y < -f.line || y > f.height + f.line) return;
    const marked = mark?.side === side && mark.at === at;
    const weight = side === "key" ? linked.keys.get(at) : linked.rows.get(at);
    if (at % every && !marked && weight === undefined) return;
    const fill = marked ? colours.accent : focus && weight === undefined ? colours.quiet : colours.ink;
    const room = (scene.isLine ? f.right - f.left : side === "query" ? f.left : f.width - f.right - 44) - 8;
    const text = fitted(short(label), room, undefined, true);
    const bold = marked || (!!focus && weight !== undefined);
    const x = scene.isLine ? (f.left + f.right) / 2 : side === "query" ? f.left - 2 : f.right + 2;
    pen.text(text, x, y, { fill, bold, align: scene.isLine ? "center" : side === "query" ? "right" : "left" });
    if (weight === undefined || marked || scene.isLine || side === "query") return;
    pen.text(number(weight, scene.matrix.exact), x + textWidth(text, undefined, bold) + 8, y, { fill: colours.quiet });
  };
  const span = (top: number, count: number) =>
    [Math.max(0, Math.floor(top / f.line) - 1), Math.min(count, Math.ceil((top + f.height) / f.line) + 1)] as const;
  const [firstKey, lastKey] = span(f.keyTop, scene.columnLabels.length);
  for (let c = firstKey; c < lastKey; c++) write("key", c, scene.columnLabels[c]!, keyY(f, c));
  if (!scene.isLine) {
    const [first, last] = span(f.queryTop, scene.rowLabels.length);
    for (let r = first; r < last; r++) write("query", r, scene.rowLabels[r]!, queryY(scene, f, r));
  }
  if (scene.matrix.residual && every === 1) rests(pen, scene, f, colours);
}

/** The weight of each token's arc with the one in focus. */
function linkedBy({ arcs, out, into }: Shown): { rows: Map<number, number>; keys: Map<number, number> } {
  const keys = new Map(out.map((i) => [arcs.column[i]!, arcs.weight[i]!]));
  return { keys, rows: new Map(into.map((i) => [arcs.row[i]!, arcs.weight[i]!])) };
}

/** What was not kept of a row, as a line below its token: full when nothing was. */
function rests(pen: Pen, scene: Scene, f: Frame, colours: Colours): void {
  const full = (scene.isLine ? f.right - f.left : Math.min(f.left, 60)) - 16;
  for (const row of rowsInView(scene, f)) {
    const rest = Math.max(0, Math.min(1, scene.matrix.residual![row] ?? 0));
    const x = scene.isLine ? f.left + 8 : f.left - 2 - full;
    const y = queryY(scene, f, row) + 9;
    pen.rect(x, y + 0.5, full, 1, colours.line);
    pen.rect(scene.isLine ? x : x + full * (1 - rest), y, full * rest, 2, colours.quiet);
  }
}
