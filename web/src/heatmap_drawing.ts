// A heatmap in ink: cells, labels, gold links, marginals. Only what is in view is drawn, so size does not matter.
import type { Colours } from "./colours";
import { type Cell, columnX, type Geometry, inView, isUpright, placeOf, rowY, TITLE } from "./geometry";
import { factsOf, received } from "./grouping";
import { short } from "./labels";
import { fitted, type Pen } from "./pen";
import type { Matrix } from "./types";

export interface Gold {
  row: number;
  column: number;
  /** false: only possible */
  sure: boolean;
}

export interface Marginals {
  received: Float32Array;
  spread: Float32Array;
}

export function marginalsOf(matrix: Matrix): Marginals {
  return {
    received: received(matrix),
    spread: Float32Array.from({ length: matrix.rows }, (_, row) => spread(matrix, row)),
  };
}

export interface Drawing {
  matrix: Matrix;
  rowLabels: string[];
  columnLabels: string[];
  colours: Colours;
  /** how strong the colour of a weight is; below zero where it is a difference */
  strength(row: number, weight: number): number;
  gold: Gold[];
  /** what each column received and how spread each row is; null: no marginals */
  marginals: Marginals | null;
  hover: Cell | null;
  /** the locked cell: its column may be −1, when only a row is chosen */
  locked: Cell | null;
  /** device pixels in one of the page's */
  density: number;
  /** whether it is drawn as shapes, for a file */
  shapes?: boolean;
  /** of each side; on the page the caption says it */
  titles?: { rows: string; columns: string };
}

type Plain = Omit<Drawing, "hover" | "locked">;

const SMALLEST_CELL = 3; // device pixels: below, cells share pixels and the largest of them shows

const MOST_SHAPES = 40_000; // cells: of more, a file holds a picture with one pixel a cell
const MOST_PIXELS = 1 << 24;

/** The cells: what stays while the pointer moves. */
export function drawCells(pen: Pen, g: Geometry, d: Plain): void {
  const small = Math.min(g.cellX, g.cellY) * d.density < SMALLEST_CELL;
  const { rows, columns } = inView(g);
  const many = (rows[1] - rows[0]) * (columns[1] - columns[0]) > MOST_SHAPES;
  pen.within(g.left, g.top, g.across, g.down, () => {
    if (d.shapes && !many) runs(pen, g, d);
    else if (d.shapes && g.zoom.scale === 1 && g.rows * g.columns <= MOST_PIXELS) mosaic(pen, g, d);
    else if (small) pooled(pen, g, d);
    else cells(pen, g, d);
  });
  pen.frame(g.left - 0.5, g.top - 0.5, g.across + 1, g.down + 1, d.colours.line, 1);
  if (g.residual !== null) residual(pen, g, d);
}

/** What is around and on the cells: names, marks, marginals. */
export function drawAround(pen: Pen, g: Geometry, d: Drawing): void {
  pen.within(g.left - 2, g.top - 2, g.across + 4, g.down + 4, () => marks(pen, g, d));
  rowNames(pen, g, d);
  columnNames(pen, g, d);
  titles(pen, g, d);
  if (d.marginals) {
    marginalBelow(pen, g, d, d.marginals.received);
    marginalRight(pen, g, d, d.marginals.spread);
  }
}

function cells(pen: Pen, g: Geometry, d: Plain): void {
  const view = inView(g);
  // Edges fall on whole device pixels, so that neighbours neither overlap nor leave a seam.
  const sharp = (value: number) => Math.round(value * d.density) / d.density;
  const gap = Math.min(g.cellX, g.cellY) >= 9 ? 1 : 0;
  for (let r = view.rows[0]; r < view.rows[1]; r++) {
    const y = sharp(rowY(g, r));
    const height = sharp(rowY(g, r + 1)) - y - gap;
    d.matrix.entries(r, (c, value) => {
      if (value === 0 || c < view.columns[0] || c >= view.columns[1]) return;
      const x = sharp(columnX(g, c));
      const width = sharp(columnX(g, c) + g.cellX) - x - gap;
      if (Number.isFinite(value)) pen.rect(x, y, width, height, d.colours.shade(d.strength(r, value)));
      else hatched(pen, x, y, width, height, d.colours.quiet);
    });
  }
}

const LAP = 0.4; // pixels that a shape goes on under the next: where shapes only touch, programs show the paper between them

/** The cells as few shapes: neighbours in a row that have one colour are one, and what has the paper's colour is none. */
export function runs(pen: Pen, g: Geometry, d: Plain): void {
  const view = inView(g);
  const [first, wide] = [Math.floor(g.zoom.x / g.cellX), view.columns[1] - view.columns[0]];
  const coloursOf = (r: number): (string | null)[] => {
    const found = new Array<string | null>(wide).fill(null);
    if (r < view.rows[1])
      d.matrix.entries(r, (c, value) => {
        if (value === 0 || c < view.columns[0] || c >= view.columns[1]) return;
        const colour = Number.isFinite(value) ? d.colours.shade(d.strength(r, value)) : HATCHED;
        found[placeOf(g, c) - first] = colour === d.colours.paper ? null : colour;
      });
    return found;
  };
  let below = coloursOf(view.rows[0]);
  for (let r = view.rows[0]; r < view.rows[1]; r++) {
    const row = below;
    below = coloursOf(r + 1);
    for (let from = 0, to = 0; from < wide; from = to) {
      const colour = row[from]!;
      for (to = from + 1; to < wide && row[to] === colour;) to++;
      if (colour === null) continue;
      const x = g.left + (first + from) * g.cellX - g.zoom.x;
      const lap = { x: row[to] ? LAP : 0, y: below.slice(from, to).every(Boolean) ? LAP : 0 };
      const [width, height] = [(to - from) * g.cellX, g.cellY];
      if (colour === HATCHED) hatched(pen, x, rowY(g, r), width, height, d.colours.quiet);
      else pen.rect(x, rowY(g, r), width + lap.x, height + lap.y, colour);
    }
  }
}

const HATCHED = "hatched";

/** One pixel a cell: exact however large the map is. */
function mosaic(pen: Pen, g: Geometry, d: Plain): void {
  const strengths = new Float32Array(g.rows * g.columns);
  for (let r = 0; r < g.rows; r++)
    d.matrix.entries(r, (c, weight) => {
      if (weight !== 0)
        strengths[r * g.columns + placeOf(g, c)] = Number.isFinite(weight) ? d.strength(r, weight) : NaN;
    });
  pen.pixels(coloured(strengths, g.columns, g.rows, d), g.left, g.top, g.across, g.down);
}

/** Not a number: no colour could say that. */
function hatched(pen: Pen, x: number, y: number, width: number, height: number, ink: string): void {
  pen.within(x, y, width, height, () => {
    for (let at = -height; at < width; at += 4) pen.line(x + at, y + height, x + at + height, y, ink, 0.75);
  });
}

function pooled(pen: Pen, g: Geometry, d: Plain): void {
  const [wide, high] = [Math.max(1, Math.round(g.across * d.density)), Math.max(1, Math.round(g.down * d.density))];
  const strongest = new Float32Array(wide * high);
  const view = inView(g);
  const [perX, perY] = [g.cellX * d.density, g.cellY * d.density];
  for (let r = view.rows[0]; r < view.rows[1]; r++) {
    const y0 = Math.max(0, Math.floor(r * perY - g.zoom.y * d.density));
    const y1 = Math.min(high, Math.max(y0 + 1, Math.floor((r + 1) * perY - g.zoom.y * d.density)));
    d.matrix.entries(r, (c, weight) => {
      if (weight === 0) return;
      const value = Number.isFinite(weight) ? d.strength(r, weight) : NaN;
      const place = placeOf(g, c);
      const x0 = Math.max(0, Math.floor(place * perX - g.zoom.x * d.density));
      const x1 = Math.min(wide, Math.max(x0 + 1, Math.floor((place + 1) * perX - g.zoom.x * d.density)));
      for (let y = y0; y < y1; y++)
        for (let x = x0; x < x1; x++) {
          const at = y * wide + x;
          // What is not a number wins, so that it is seen.
          if (!(Math.abs(value) <= Math.abs(strongest[at]!)) && !Number.isNaN(strongest[at])) strongest[at] = value;
        }
    });
  }
  pen.pixels(coloured(strongest, wide, high, d), g.left, g.top, wide / d.density, high / d.density);
}

function coloured(values: Float32Array, wide: number, high: number, d: Plain): ImageData {
  const image = new ImageData(wide, high);
  values.forEach((value, i) => {
    if (value === 0) return;
    const scale = (value < 0 && d.colours.below) || d.colours.scale;
    const at = 3 * Math.round(Math.min(1, Math.abs(value)) * 255);
    // Not a number has no place on the scale: grey stands for it where there is no room to hatch.
    const colour = Number.isFinite(value) ? [scale[at]!, scale[at + 1]!, scale[at + 2]!, 255] : [128, 128, 128, 255];
    image.data.set(colour, 4 * i);
  });
  return image;
}

function residual(pen: Pen, g: Geometry, d: Plain): void {
  const mass = d.matrix.residual;
  if (!mass || g.residual === null) return;
  const left = g.residual;
  pen.within(left, g.top, 16, g.down, () =>
    bars(mass, inView(g).rows, g.cellY, d.density, (r, value) =>
      pen.rect(left, rowY(g, r), 16, Math.max(g.cellY, 1 / d.density), d.colours.shade(value)),
    ),
  );
  pen.frame(left - 0.5, g.top - 0.5, 17, g.down + 1, d.colours.line, 1);
  pen.text("rest", left + 8, g.below + 6, { fill: d.colours.quiet, align: "center" });
}

function marks(pen: Pen, g: Geometry, d: Drawing): void {
  const box = ({ row, column }: Cell, colour: string, thick: number, dashes?: number[]) =>
    pen.frame(columnX(g, column), rowY(g, row), Math.max(g.cellX, 4), Math.max(g.cellY, 4), colour, thick, dashes);
  for (const link of d.gold) {
    // Two lines, so that one of them stands out from the cell whatever its colour.
    const [x, y] = [columnX(g, link.column), rowY(g, link.row)];
    const dashes = link.sure ? undefined : [4, 4];
    if (dashes) pen.frame(x + 0.5, y + 0.5, Math.max(3, g.cellX - 2), Math.max(3, g.cellY - 2), d.colours.paper, 2);
    if (g.cellX >= 9 && g.cellY >= 9) pen.frame(x + 2, y + 2, g.cellX - 5, g.cellY - 5, d.colours.paper, 1.5);
    pen.frame(x + 0.5, y + 0.5, Math.max(3, g.cellX - 2), Math.max(3, g.cellY - 2), d.colours.ink, 1.5, dashes);
  }
  const { hover, locked } = d;
  if (locked && locked.row >= 0) {
    if (locked.column >= 0) box(locked, d.colours.accent, 2);
    else pen.frame(g.left, rowY(g, locked.row), g.across, Math.max(g.cellY, 3), d.colours.accent, 1);
  }
  if (hover && hover.row >= 0 && hover.column >= 0) box(hover, d.colours.accent, 1);
}

function isMarked(d: Drawing, side: "row" | "column", index: number): boolean {
  return d.hover?.[side] === index || d.locked?.[side] === index;
}

/** Labels that there is room for; a marked one always shows and its neighbours make way. */
function named(
  d: Drawing,
  side: "row" | "column",
  [first, last]: [number, number],
  every: number,
  write: (index: number, marked: boolean) => void,
): void {
  const marked = [d.hover?.[side] ?? -1, d.locked?.[side] ?? -1].filter((index) => index >= first && index < last);
  const start = Math.ceil(first / every) * every;
  for (let i = start; i < last; i += every) {
    const near = every > 1 && marked.some((index) => index !== i && Math.abs(index - i) < every);
    if (!near && !isMarked(d, side, i)) write(i, false);
  }
  const shown = d.hover && marked.length > 1 && Math.abs(marked[0]! - marked[1]!) < every ? marked.slice(0, 1) : marked;
  new Set(shown).forEach((index) => write(index, true));
}

function rowNames(pen: Pen, g: Geometry, d: Drawing): void {
  const { colours } = d;
  named(d, "row", inView(g).rows, g.everyRow, (row, marked) => {
    const y = rowY(g, row) + g.cellY / 2;
    if (y < g.top - 2 || y > g.top + g.down + 2) return;
    const text = fitted(short(d.rowLabels[row]!), g.left - 12, undefined, marked);
    pen.text(text, g.left - 8, y, { fill: marked ? colours.accent : colours.ink, align: "right", bold: marked });
  });
}

function columnNames(pen: Pen, g: Geometry, d: Drawing): void {
  const { colours } = d;
  named(d, "column", inView(g).columns, g.everyColumn, (column, marked) => {
    const x = columnX(g, column) + g.cellX / 2;
    if (x < g.left - 2 || x > g.left + g.across + 2) return;
    const label = short(d.columnLabels[column]!);
    const fill = marked ? colours.accent : colours.ink;
    if (g.angle === 0 && isUpright(label, g.cellX * g.everyColumn))
      return pen.text(label, x, g.top - 12, { fill, bold: marked, align: "center" });
    const angle = g.angle || -45;
    const room = angle === -45 ? (g.top - 14) / 0.72 : g.top - 10;
    pen.text(fitted(label, room, undefined, marked), x + (angle === -45 ? -2 : 0), g.top - 8, {
      fill,
      bold: marked,
      angle,
    });
  });
}

function titles(pen: Pen, g: Geometry, d: Drawing): void {
  const { rows = "", columns = "" } = d.titles ?? {};
  const style = { fill: d.colours.ink, align: "center" as const };
  if (columns) pen.text(fitted(columns, g.across + 40), g.left + g.across / 2, TITLE / 2 - 1, style);
  if (rows) pen.text(fitted(rows, g.down + 40), TITLE / 2 - 2, g.top + g.down / 2, { ...style, angle: -90 });
}

const TALL = 24;

/** Bars thinner than a pixel share it, and the largest of them shows. */
function bars(
  values: Float32Array,
  [first, last]: [number, number],
  cell: number,
  density: number,
  bar: (index: number, value: number) => void,
): void {
  const every = Math.max(1, Math.floor(1 / (cell * density)));
  for (let start = first; start < last; start += every) {
    let most = 0;
    for (let i = start; i < Math.min(last, start + every); i++) most = Math.max(most, values[i]! || 0);
    bar(start, most);
  }
}

function marginalBelow(pen: Pen, g: Geometry, d: Drawing, mass: Float32Array): void {
  const most = mass.reduce((found, each) => Math.max(found, each), 0);
  const wide = Math.max(1 / d.density, g.cellX - (g.cellX >= 9 ? 1 : 0));
  pen.within(g.left, g.below - 4, g.across, TALL + 8, () =>
    bars(mass, inView(g).columns, g.cellX, d.density, (c, value) => {
      const height = (value / (most || 1)) * TALL;
      if (height > 0.2)
        pen.rect(columnX(g, c), g.below, wide, height, isMarked(d, "column", c) ? d.colours.accent : d.colours.quiet);
    }),
  );
  pen.text(fitted("received", g.left - 10), g.left - 8, g.below + 6, { fill: d.colours.quiet, align: "right" });
}

/** How spread a row is: its entropy; of rows that are only partly kept, the largest weight. */
function spread(matrix: Matrix, row: number): number {
  const facts = factsOf(matrix, row);
  if (facts.broken) return NaN;
  return matrix.partial ? facts.largest : facts.entropy;
}

function marginalRight(pen: Pen, g: Geometry, d: Drawing, spreads: Float32Array): void {
  const room = Math.min(64, g.width - g.right - 4);
  // The most a row can be spread: evenly over all keys.
  const most = d.matrix.partial ? 1 : Math.log(Math.max(2, d.matrix.columns));
  const high = Math.max(1 / d.density, Math.min(g.cellY - (g.cellY >= 9 ? 1 : 0), 14));
  pen.within(g.right, g.top, room, g.down, () =>
    bars(spreads, inView(g).rows, g.cellY, d.density, (r, value) => {
      const length = Math.min(1, value / most) * room;
      const y = rowY(g, r) + (g.cellY - high) / 2;
      if (length > 0.2) pen.rect(g.right, y, length, high, isMarked(d, "row", r) ? d.colours.accent : d.colours.quiet);
    }),
  );
  pen.text(d.matrix.partial ? "largest" : "entropy", g.right, g.below + 6, { fill: d.colours.quiet });
}
