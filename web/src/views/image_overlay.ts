// A picture under a veil: the page's own colour lies over what was not looked at, so that nothing looks like nothing.
import { number } from "../labels";
import { canvasPen, textWidth } from "../pen";
import type { Colours } from "../colours";
import type { PageAxis } from "../types";

export interface Overlay {
  axis: PageAxis;
  /** null: the trace has no picture, only patches */
  image: HTMLImageElement | null;
  row: ArrayLike<number>;
  /** the weight that is not veiled at all */
  largest: number;
  /** how much the veil hides, 0 … 1 */
  veil: number;
  smooth: boolean;
  /** the one patch that hard attention read: it alone is clear */
  chosen: number | null;
}

export interface Marks {
  hover: number;
  locked: number;
  /** the patch that looks, where patches look at patches, on its own grid */
  from: number;
  grid: PageAxis;
  exact: boolean;
}

/** The patches as pixels: the veil's colour, the more opaque the less was looked; the scale's colours without a picture. */
function patches({ axis, image, row, largest, veil, chosen }: Overlay, colours: Colours): HTMLCanvasElement {
  const [height, width] = [axis.height ?? 0, axis.width ?? 0];
  const pixels = new ImageData(Math.max(1, width), Math.max(1, height));
  const ground = colours.scale;
  for (let i = 0; i < width * height; i++) {
    const value = chosen === null ? (row[i] ?? 0) / (largest || 1) : i === chosen ? 1 : 0;
    const strength = Number.isFinite(value) ? Math.max(0, Math.min(1, value)) : 0;
    const at = image ? 0 : 3 * Math.round(255 * strength);
    const alpha = image ? 255 * veil * (1 - strength) : 255;
    pixels.data.set([ground[at]!, ground[at + 1]!, ground[at + 2]!, alpha], 4 * i);
  }
  const canvas = document.createElement("canvas");
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
  return canvas;
}

export function drawOverlay(
  ctx: CanvasRenderingContext2D,
  overlay: Overlay,
  colours: Colours,
  width: number,
  height: number,
): void {
  ctx.clearRect(0, 0, width, height);
  ctx.imageSmoothingEnabled = true;
  if (overlay.image) ctx.drawImage(overlay.image, 0, 0, width, height);
  const [x, y, w, h] = framed(overlay.axis, width, height);
  if (overlay.image) veilAround(ctx, overlay.veil, colours, [x, y, w, h], width, height);
  ctx.imageSmoothingEnabled = overlay.smooth && overlay.chosen === null;
  ctx.imageSmoothingQuality = "high";
  ctx.drawImage(patches(overlay, colours), x, y, w, h);
  ctx.imageSmoothingEnabled = true;
  hatch(ctx, overlay, colours, width, height);
}

type Rect = [number, number, number, number];

/** Where the patches lie in a drawing of the image: left, top, width and height. */
function framed({ image, box }: PageAxis, width: number, height: number): Rect {
  const [left, top, right, bottom] = (image && box) || [0, 0, 1, 1];
  return [left * width, top * height, (right - left) * width, (bottom - top) * height];
}

/** What the network was not shown is as veiled as what it did not look at. */
function veilAround(
  ctx: CanvasRenderingContext2D,
  veil: number,
  colours: Colours,
  [x, y, w, h]: Rect,
  width: number,
  height: number,
): void {
  const [red, green, blue] = colours.scale;
  ctx.fillStyle = `rgb(${red} ${green} ${blue} / ${veil})`;
  ctx.beginPath();
  ctx.rect(0, 0, width, height);
  ctx.rect(x, y, w, h);
  ctx.fill("evenodd");
}

/** Patches whose weight is not a number are hatched. */
function hatch(
  ctx: CanvasRenderingContext2D,
  { axis, row }: Overlay,
  colours: Colours,
  width: number,
  height: number,
): void {
  for (let i = 0; i < row.length; i++) {
    if (Number.isFinite(row[i]!)) continue;
    const [x, y, w, h] = patchAt(axis, i, width, height);
    canvasPen(ctx).within(x, y, w, h, () => {
      for (let d = -h; d < w; d += 6) canvasPen(ctx).line(x + d, y + h, x + d + h, y, colours.quiet, 1);
    });
  }
}

/** Left, top, width and height of a patch. */
export function patchAt(axis: PageAxis, patch: number, width: number, height: number): Rect {
  const [x, y, wide, high] = framed(axis, width, height);
  const [w, h] = [wide / (axis.width || 1), high / (axis.height || 1)];
  return [x + (patch % (axis.width || 1)) * w, y + Math.floor(patch / (axis.width || 1)) * h, w, h];
}

/** The patch at a place of the image, in fractions of its sides; beside the patches the nearest. */
export function patchUnder(axis: PageAxis, across: number, down: number): number {
  const [x, y, w, h] = framed(axis, 1, 1);
  const [columns, rows] = [axis.width || 1, axis.height || 1];
  const column = Math.max(0, Math.min(columns - 1, Math.floor(((across - x) / w) * columns)));
  return Math.max(0, Math.min(rows - 1, Math.floor(((down - y) / h) * rows))) * columns + column;
}

export function drawMarks(
  ctx: CanvasRenderingContext2D,
  overlay: Overlay,
  marks: Marks,
  colours: Colours,
  width: number,
  height: number,
): void {
  const pen = canvasPen(ctx);
  const frame = (patch: number, colour: string, thick: number, dashes?: number[], axis = overlay.axis) => {
    if (patch < 0) return;
    const [x, y, w, h] = patchAt(axis, patch, width, height);
    pen.frame(x, y, w, h, colours.paper, thick + 2);
    pen.frame(x, y, w, h, colour, thick, dashes);
  };
  frame(marks.from, colours.accent, 2, [4, 3], marks.grid);
  frame(marks.hover, colours.ink, 1);
  frame(marks.locked, colours.accent, 2);
  const told = marks.hover >= 0 ? marks.hover : marks.locked;
  if (told < 0) return;
  const [x, y, w, h] = patchAt(overlay.axis, told, width, height);
  const text = number(overlay.row[told], marks.exact);
  const wide = textWidth(text) + 10;
  const left = Math.max(0, Math.min(width - wide, x + w / 2 - wide / 2));
  const top = y >= 24 ? y - 24 : y + h + 4;
  pen.rect(left, top, wide, 20, colours.paper);
  pen.text(text, left + wide / 2, top + 10.5, { fill: colours.ink, align: "center" });
}
