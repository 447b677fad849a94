// Where everything of a heatmap stands: labels, cells, marginals, and the part of a large map that is in view.
import { SMALL, textWidth } from "./pen";

/** What the reader chose of a large map: how much larger than fitting, and the pixels scrolled away. */
export interface Zoom {
  scale: number;
  x: number;
  y: number;
}

export const WHOLE: Zoom = { scale: 1, x: 0, y: 0 };

export interface Geometry {
  width: number;
  height: number;
  /** the corner of the cells, and the size of the window on them */
  left: number;
  top: number;
  across: number;
  down: number;
  cellX: number;
  cellY: number;
  /** how columns are named: upright (those that are too wide slanted), slanted, or turned */
  angle: 0 | -45 | -90;
  /** every how manieth label there is room for */
  everyRow: number;
  everyColumn: number;
  rows: number;
  columns: number;
  /** the first column is the one at the right, as the text runs */
  mirrored: boolean;
  zoom: Zoom;
  largest: Zoom["scale"];
  /** where the column of what was not kept begins; null: all was kept */
  residual: number | null;
  /** where the marginals begin */
  right: number;
  below: number;
}

export interface Wanted {
  width: number;
  /** of the whole picture, labels included */
  tallest: number;
  rowLabels: string[];
  columnLabels: string[];
  residual: boolean;
  marginals: boolean;
  /** both sides are the same axis, so the diagonal must be one */
  square: boolean;
  mirrored?: boolean;
  /** whether each side has a title */
  titles?: { rows: boolean; columns: boolean };
  /** pixels a side of the largest cell */
  most?: number;
  zoom: Zoom;
}

const LARGEST_CELL = 44;
const UPRIGHT = 14; // pixels that a letter needs
const LINE = SMALL + 3;
const WIDEST_LABEL = 150;
const RIGHT = 86;
const BELOW = 46;
const RESIDUAL = 34;
/** pixels that a title takes, beside or above the names */
export const TITLE = 20;
const SAMPLE = 400;

function widest(labels: string[], most: number): number {
  const every = Math.max(1, Math.floor(labels.length / SAMPLE));
  let found = 0;
  for (let i = 0; i < labels.length && found < most; i += every)
    found = Math.max(found, textWidth(labels[i]!.slice(0, 60)));
  return Math.min(most, found);
}

/** The share of labels that are wider than their column. */
function wideOnes(labels: string[], cell: number): number {
  const every = Math.max(1, Math.floor(labels.length / SAMPLE));
  let [wide, all] = [0, 0];
  for (let i = 0; i < labels.length; i += every, all++) if (!isUpright(labels[i]!, cell)) wide++;
  return all ? wide / all : 0;
}

export function isUpright(label: string, cell: number): boolean {
  return textWidth(label.slice(0, 60)) + 2 <= cell;
}

export function geometryOf({
  width,
  tallest,
  rowLabels,
  columnLabels,
  residual,
  marginals,
  square,
  mirrored = false,
  titles = { rows: false, columns: false },
  most = LARGEST_CELL,
  zoom,
}: Wanted): Geometry {
  const [rows, columns] = [rowLabels.length, columnLabels.length];
  const least = marginals ? textWidth("received") : 0;
  const [beside, above] = [titles.rows ? TITLE : 0, titles.columns ? TITLE : 0];
  const left = beside + Math.ceil(Math.max(least, widest(rowLabels, Math.min(WIDEST_LABEL, width * 0.28)))) + 14;
  // A slanted last name needs the room that marginals would leave.
  const beyond = Math.max(8, Math.min(48, textWidth((columnLabels.at(mirrored ? 0 : -1) ?? "").slice(0, 60)) * 0.72));
  const aside = (marginals ? (width < 480 ? RIGHT - 18 : RIGHT) : beyond) + (residual ? RESIDUAL : 0);
  const room = Math.max(40, width - left - aside);
  const name = widest(columnLabels, WIDEST_LABEL);
  const around = above + (marginals ? BELOW : 6) + Math.max(LINE + 6, Math.min(name, 90) * 0.72 + 18);
  const high = Math.max(120, tallest - around);
  const [fitX, fitY] = fit(room, high, rows, columns, square, most);
  const largest = Math.max(1, most / Math.min(fitX, fitY));
  const scale = Math.max(1, Math.min(largest, zoom.scale));
  const cellX = Math.min(Math.max(most, fitX), fitX * scale);
  const cellY = Math.min(Math.max(most, fitY), fitY * scale);
  // Names that are short (letters) stay upright in narrow columns: every second or third of them does.
  const every = wideOnes(columnLabels, cellX) ? Math.max(1, Math.ceil(UPRIGHT / cellX)) : 1;
  const wide = wideOnes(columnLabels, cellX * every);
  const angle = wide < 0.2 ? 0 : cellX >= 19 && name < 110 ? -45 : -90;
  const names = angle === 0 && wide === 0 ? LINE + 6 : angle === -90 ? name + 12 : name * 0.72 + 18;
  const top = above + Math.ceil(names);
  const across = Math.min(room, fitX * columns);
  const down = Math.min(high, fitY * rows);
  const right = left + across + (residual ? RESIDUAL : 0) + 14;
  // Slanted names reach beyond the last column.
  const needed = Math.max(right + (marginals ? RIGHT - 14 : 0), left + across + (angle === -90 ? 0 : name * 0.72));
  return {
    width: Math.min(width, Math.ceil(needed)),
    height: top + down + (marginals ? BELOW : 6),
    left,
    top,
    across,
    down,
    cellX,
    cellY,
    angle,
    everyRow: Math.max(1, Math.ceil(LINE / cellY)),
    everyColumn: angle === 0 ? every : Math.max(1, Math.ceil((angle === -45 ? LINE * 1.25 : LINE) / cellX)),
    rows,
    columns,
    mirrored,
    zoom: { scale, x: clamp(zoom.x, cellX * columns - across), y: clamp(zoom.y, cellY * rows - down) },
    largest,
    residual: residual ? left + across + 12 : null,
    right,
    below: top + down + 10,
  };
}

/** The largest cells with which the whole map fits; a long thin map may have cells that are not square. */
function fit(
  room: number,
  tallest: number,
  rows: number,
  columns: number,
  square: boolean,
  most: number,
): [number, number] {
  let x = Math.min(most, room / Math.max(1, columns));
  let y = Math.min(most, tallest / Math.max(1, rows));
  if (square) x = y = Math.min(x, y);
  else if (x > y) x = Math.min(x, Math.max(y, 22));
  else y = Math.min(y, Math.max(x, 22));
  return [x, y];
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(Math.max(0, most), Number.isFinite(value) ? value : 0));
}

export interface Cell {
  row: number;
  column: number;
}

/** The cell under a point; labels count as the cell they name would, with −1 for the side that is not named. */
export function cellAt(g: Geometry, x: number, y: number): Cell | null {
  const column = Math.floor((x - g.left + g.zoom.x) / g.cellX);
  const row = Math.floor((y - g.top + g.zoom.y) / g.cellY);
  const inX = x >= g.left && x < g.left + g.across && column < g.columns;
  const inY = y >= g.top && y < g.top + g.down && row < g.rows;
  if (!inX && !inY) return null;
  return { row: inY ? row : -1, column: inX ? placeOf(g, column) : -1 };
}

/** How manieth from the left a column is; and which column is so manieth. */
export function placeOf({ mirrored, columns }: Geometry, column: number): number {
  return mirrored && column >= 0 ? columns - 1 - column : column;
}

export function columnX(g: Geometry, column: number): number {
  return g.left + placeOf(g, column) * g.cellX - g.zoom.x;
}

export function rowY(g: Geometry, row: number): number {
  return g.top + row * g.cellY - g.zoom.y;
}

/** Rows and columns in view: first, and one past the last. */
export function inView(g: Geometry): { rows: [number, number]; columns: [number, number] } {
  const first = Math.floor(g.zoom.x / g.cellX);
  const last = Math.min(g.columns, Math.ceil((g.zoom.x + g.across) / g.cellX));
  return {
    rows: [Math.floor(g.zoom.y / g.cellY), Math.min(g.rows, Math.ceil((g.zoom.y + g.down) / g.cellY))],
    columns: g.mirrored ? [g.columns - last, g.columns - first] : [first, last],
  };
}

/** Larger or smaller around a point of the canvas, which stays where it is. */
export function zoomed(g: Geometry, factor: number, x = g.left + g.across / 2, y = g.top + g.down / 2): Zoom {
  const scale = Math.max(1, Math.min(g.largest, g.zoom.scale * factor));
  const grown = scale / g.zoom.scale;
  return { scale, x: (x - g.left + g.zoom.x) * grown - (x - g.left), y: (y - g.top + g.zoom.y) * grown - (y - g.top) };
}

/** The same zoom moved just so far that a cell is in view. */
export function reaching(g: Geometry, cell: Cell): Zoom {
  const near = (at: number, size: number, window: number, index: number) =>
    index < 0 ? at : Math.max(Math.min(at, index * size), (index + 1) * size - window);
  return {
    ...g.zoom,
    x: near(g.zoom.x, g.cellX, g.across, placeOf(g, cell.column)),
    y: near(g.zoom.y, g.cellY, g.down, cell.row),
  };
}
