// The wall: every head's map as a small picture, all on one canvas. Marks lie above it, so that a hand moving over the
// wall redraws nothing.
import { useContext, useRef, useState } from "preact/hooks";
import type { Colours } from "../colours";
import { type Drawn, useDrawn } from "../drawn";
import { fitted, type Pen } from "../pen";
import { OnSheet, useColours } from "../theme";
import { dense } from "../matrices";
import { type ScaleName, scaleOf } from "../scale";
import type { PageMap } from "../types";
import { moved, type Placed, placeAt, type Wall } from "./heads_layout";

interface WallProps {
  wall: Wall;
  thumbs: Thumbs;
  scale: ScaleName;
  /** the place that keys move from; −1: none yet */
  chosen: number;
  onHover(place: number): void;
  onChoose(place: number): void;
  /** `from` is where the thumbnail stands in the window, `picture` what it shows */
  onOpen(place: number, from: DOMRect, picture: HTMLCanvasElement): void;
}

export function HeadWall({ wall, thumbs, scale, chosen, onHover, onChoose, onOpen }: WallProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours();
  const [over, tell] = useState(-1);
  useDrawn(canvas, wall.width, wall.height, (...on) => draw(wall, thumbs, colours, scale, ...on), [
    wall,
    thumbs,
    colours,
    scale,
  ]);
  const hover = (place: number) => {
    if (place === over) return;
    tell(place);
    onHover(place);
  };
  const open = (place: number) => {
    const each = wall.placed[place];
    if (each && canvas.current)
      onOpen(place, rectOf(canvas.current, each, wall.size), cut(canvas.current, each, wall.size));
  };
  const at = (event: MouseEvent) => placeAt(wall, event.offsetX, event.offsetY);
  const key = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter") open(Math.max(0, chosen));
    else if (/^(Arrow|Home$|End$)/.test(event.key)) {
      const next = moved(wall, chosen, event.key);
      onChoose(next);
      showPlace(canvas.current, wall, next);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="heads-wall" style={{ height: `${wall.height}px` }}>
      <canvas
        ref={canvas}
        role="application"
        aria-roledescription="wall of heads"
        aria-label={`${wall.placed.length} heads, each as a small picture. Arrow keys move, Enter opens one.`}
        tabIndex={0}
        style={{ width: `${wall.width}px`, height: `${wall.height}px`, cursor: over < 0 ? "default" : "zoom-in" }}
        onPointerMove={(event) => hover(at(event))}
        onPointerLeave={() => hover(-1)}
        onClick={(event) => open(at(event))}
        onKeyDown={key}
      />
      {!useContext(OnSheet) && (
        <>
          <Mark wall={wall} place={chosen} kind="chosen" />
          <Mark wall={wall} place={over} kind="over" />
        </>
      )}
    </div>
  );
}

function Mark({ wall, place, kind }: { wall: Wall; place: number; kind: string }) {
  const each = wall.placed[place];
  if (!each) return null;
  return (
    <div
      class={`heads-mark ${kind}`}
      data-export={kind === "over" ? "no" : undefined}
      style={{
        left: `${each.x - 3}px`,
        top: `${each.y - 3}px`,
        width: `${wall.size + 6}px`,
        height: `${wall.size + 12}px`,
      }}
    />
  );
}

/** A place of the wall in the window. */
function rectOf(canvas: HTMLCanvasElement, { x, y }: Placed, size: number): DOMRect {
  const box = canvas.getBoundingClientRect();
  return new DOMRect(box.left + x, box.top + y, size, size);
}

function cut(canvas: HTMLCanvasElement, { x, y }: Placed, size: number): HTMLCanvasElement {
  const density = canvas.width / Math.max(1, canvas.clientWidth);
  const picture = document.createElement("canvas");
  picture.width = picture.height = Math.round(size * density);
  picture
    .getContext("2d")
    ?.drawImage(
      canvas,
      Math.round(x * density),
      Math.round(y * density),
      picture.width,
      picture.height,
      0,
      0,
      picture.width,
      picture.height,
    );
  return picture;
}

const FOOT = 140; // pixels that the page's footer covers

/** Scrolls the page just so far that a place is in the window. */
function showPlace(canvas: HTMLCanvasElement | null, wall: Wall, place: number): void {
  const each = wall.placed[place];
  if (!canvas || !each) return;
  const { top, bottom } = rectOf(canvas, each, wall.size);
  if (top < 8) scrollBy(0, top - 8);
  else if (bottom > innerHeight - FOOT) scrollBy(0, bottom - innerHeight + FOOT);
}

type Thumbs = Map<PageMap, Uint8Array>;

function draw(
  wall: Wall,
  thumbs: Thumbs,
  colours: Colours,
  scale: ScaleName,
  ...[pen, density, ctx]: Parameters<Drawn>
): void {
  const { size } = wall;
  const side = Math.round(size * density);
  for (const { map, x, y } of wall.placed) {
    const thumb = thumbs.get(map);
    const image = thumb && map.thumb ? pixelsOf(thumb, map, scale, side, paletteOf(colours)) : null;
    // Straight onto the canvas: a picture for each of hundreds of heads, only to copy it, would cost most of the time.
    if (image && ctx) ctx.putImageData(image, Math.round(x * density), Math.round(y * density));
    else if (image) pen.pixels(image, x, y, size, size);
    else pen.text("–", x + size / 2, y + size / 2, { fill: colours.quiet, align: "center" });
    pen.frame(x - 0.5, y - 0.5, size + 1, size + 1, colours.line, 1);
    entropyLine(pen, map, x, y + size + 4, size, colours);
  }
  const style = { fill: colours.quiet };
  for (const { text, x, y, align, room } of wall.names) pen.text(fitted(text, room), x, y, { ...style, align });
}

/** The mean entropy, out of that of an even look at everything. */
function entropyLine(pen: Pen, map: PageMap, x: number, y: number, size: number, colours: Colours): void {
  if (map.entropy === null) return;
  const share = map.keys > 1 ? Math.max(0, Math.min(1, map.entropy / Math.log(map.keys))) : 0;
  pen.rect(x, y + 0.5, size, 1, colours.line);
  pen.rect(x, y, Math.max(1, share * size), 2, colours.quiet);
}

/** Bytes of the palette: a thumbnail's own bytes are √(weight / largest). */
function shadesOf(thumb: Uint8Array, map: PageMap, name: ScaleName): Uint8Array {
  const { rows, columns } = map.thumb!;
  const weights = Float32Array.from(thumb, (q) => (q / 255) ** 2 * (map.largest ?? 1));
  const { strength } = scaleOf(name, {
    ...dense(weights, rows, columns),
    largest: map.largest ?? 1,
    columns: map.keys,
  });
  const shade = (weight: number, i: number) => Math.round(255 * Math.min(1, strength(Math.floor(i / columns), weight)));
  return Uint8Array.from(weights, shade);
}

function paletteOf({ scale }: Colours): Uint32Array {
  // Bytes in memory are red, green, blue, opaque on every machine that browsers run on today.
  return Uint32Array.from(
    { length: 256 },
    (_, i) => (255 << 24) | (scale[3 * i + 2]! << 16) | (scale[3 * i + 1]! << 8) | scale[3 * i]!,
  );
}

/** A thumbnail in so many pixels a side: larger ones repeat its cells, smaller ones show the strongest of several. */
function pixelsOf(thumb: Uint8Array, map: PageMap, scale: ScaleName, side: number, palette: Uint32Array): ImageData {
  const { rows, columns } = map.thumb!;
  const shades = shadesOf(thumb, map, scale);
  const strongest = new Uint8Array(side * side);
  const spans = (count: number) =>
    Array.from(
      { length: count },
      (_, i) =>
        [
          Math.floor((i * side) / count),
          Math.max(Math.floor((i * side) / count) + 1, Math.floor(((i + 1) * side) / count)),
        ] as const,
    );
  const across = spans(columns);
  spans(rows).forEach(([top, bottom], r) => {
    for (let c = 0; c < columns; c++) {
      const value = shades[r * columns + c]!;
      if (value === 0) continue;
      const [left, right] = across[c]!;
      for (let y = top; y < bottom && y < side; y++)
        for (let x = left; x < right && x < side; x++)
          if (value > strongest[y * side + x]!) strongest[y * side + x] = value;
    }
  });
  const image = new ImageData(side, side);
  const words = new Uint32Array(image.data.buffer);
  for (let i = 0; i < strongest.length; i++) words[i] = palette[strongest[i]!]!;
  return image;
}
