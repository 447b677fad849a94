// Where the thumbnails of the wall stand: a row a site and a column a head, or one after the other in some order.
import type { PageAxis, PageMap, PageTrace } from "../types";

export type SiteKind = "encoder" | "decoder" | "cross";

/** Of one axis: it looks at itself. Shifted: it looks at what was written before. Across: at something else. */
function relationOf(trace: Pick<PageTrace, "axes">, map: Pick<PageMap, "query" | "key">): "self" | "past" | "across" {
  if (map.query === map.key) return "self";
  return isPast(trace.axes[map.query], trace.axes[map.key]) ? "past" : "across";
}

/** Whether position i + 1 of the keys is position i of the queries: what was written, one step later. */
function isPast(query: PageAxis | undefined, key: PageAxis | undefined): boolean {
  if (!query || !key || query.kind !== "tokens" || key.kind !== "tokens" || key.labels.length < 2) return false;
  return key.labels.slice(1).every((label, i) => query.labels[i] === undefined || query.labels[i] === label);
}

/** What each map belongs to. What writes looks across too, or at what it wrote; what only reads is an encoder. */
export function siteKinds(trace: Pick<PageTrace, "axes" | "maps">): Map<PageMap, SiteKind> {
  const relations = new Map<string, ReturnType<typeof relationOf>>();
  const relation = (map: PageMap) => {
    const name = JSON.stringify([map.query, map.key]);
    if (!relations.has(name)) relations.set(name, relationOf(trace, map));
    return relations.get(name)!;
  };
  const writing = new Set(trace.maps.filter((map) => relation(map) === "across").map((map) => map.query));
  const kind = (map: PageMap): SiteKind =>
    relation(map) === "across" ? "cross" : relation(map) === "past" || writing.has(map.query) ? "decoder" : "encoder";
  return new Map(trace.maps.map((map) => [map, kind(map)]));
}

/** Site names with what they all share left out, and long words cut to three letters: for places with little room. */
export function briefly(sites: string[]): Map<string, string> {
  const split = sites.map((site) => site.split("."));
  const shared = (i: number) =>
    sites.length > 1 && split.every((parts) => parts.length > i && parts[i] === split[0]![i]);
  return new Map(
    sites.map((site, s) => {
      const kept = split[s]!.filter((_, i) => !shared(i));
      return [
        site,
        (kept.length ? kept : split[s]!).map((part) => (part.length < 6 ? part : part.slice(0, 3))).join(" "),
      ];
    }),
  );
}

export interface Placed {
  map: PageMap;
  x: number;
  y: number;
  /** where it stands for the arrow keys: line by line */
  line: number;
}

export interface Name {
  text: string;
  x: number;
  y: number;
  align: "left" | "right" | "center";
  /** pixels there is room for */
  room: number;
}

export interface Wall {
  width: number;
  height: number;
  /** the side of a thumbnail */
  size: number;
  placed: Placed[];
  names: Name[];
}

const LARGEST = 132;
const SMALLEST = 28;
const READABLE = 64;
const COMFORTABLE = 96;
const WRAPPED = 52; // the least side when a site's heads take several lines
const UNDER = 12; // pixels below a thumbnail, its entropy among them
const LINE = 18;
const BETWEEN = 32; // pixels between sites that stand beside each other

export interface Room {
  width: number;
  tallest: number;
  /** pixels that the widest name of a site needs */
  nameWidth: number;
}

function gapOf(size: number): number {
  return size < 44 ? 4 : 8;
}

/** A row a site, a column a head. Where a row would not fit, the site's name goes above and its heads wrap. */
export function inPlace(maps: PageMap[], { width, tallest, nameWidth }: Room): Wall {
  const rows = new Map<string, PageMap[]>();
  for (const map of maps) rows.set(map.site, [...(rows.get(map.site) ?? []), map]);
  const columns = Math.max(1, ...[...rows.values()].map((row) => row.length));
  const left = Math.ceil(Math.min(nameWidth, width * 0.3)) + 14;
  const side = (blocks: number) => {
    const fits = (width - BETWEEN * (blocks - 1)) / blocks - left;
    return fits / columns - gapOf(fits / columns);
  };
  if (side(1) < SMALLEST || width < 480) return wrapped(rows, columns, width);
  // Small enough for the window if that is not too small to see; a wall that is taller anyway takes the width there is.
  const sized = (blocks: number) => {
    const down = (tallest - LINE) / Math.ceil(rows.size / blocks) - UNDER - 4;
    return Math.floor(Math.min(LARGEST, side(blocks), down < READABLE ? COMFORTABLE : down));
  };
  // Few heads a site would leave the page empty at the right: later sites then stand beside earlier ones, hardly smaller.
  const blocks = [1, 2, 3].reduce((best, each) =>
    each <= rows.size / 2 && sized(each) > 0.9 * sized(best) ? each : best,
  );
  return inBlocks([...rows], { columns, blocks, left, size: sized(blocks), width });
}

interface Blocks {
  columns: number;
  blocks: number;
  left: number;
  size: number;
  width: number;
}

function inBlocks(rows: [string, PageMap[]][], { columns, blocks, left, size, width }: Blocks): Wall {
  const [across, pitch] = [size + gapOf(size), size + UNDER + gapOf(size) - 4];
  const perBlock = Math.ceil(rows.length / blocks);
  const block = left + columns * across + BETWEEN;
  const tight = Math.min(width, blocks * block - BETWEEN);
  const wall: Wall = { width: tight, height: LINE + perBlock * pitch, size, placed: [], names: [] };
  for (let b = 0; b < blocks && columns > 1; b++)
    for (let c = 0; c < columns; c++) {
      const x = b * block + left + c * across + size / 2;
      wall.names.push({ text: String(c), x, y: LINE / 2, align: "center", room: size });
    }
  // Line by line across the blocks: that is how arrow keys go.
  for (let line = 0; line < perBlock; line++)
    for (let b = 0; b < blocks; b++) {
      const [site, row] = rows[b * perBlock + line] ?? ["", []];
      const [x, y] = [b * block + left, LINE + 2 + line * pitch];
      if (row.length) wall.names.push({ text: site, x: x - 10, y: y + size / 2, align: "right", room: left - 12 });
      row.forEach((map, c) => wall.placed.push({ map, x: x + c * across, y, line }));
    }
  return wall;
}

function wrapped(rows: Map<string, PageMap[]>, columns: number, width: number): Wall {
  const gap = gapOf(WRAPPED);
  const most = Math.max(1, Math.floor((width + gap) / (WRAPPED + gap)));
  // As many lines as are needed, all about as long.
  const perLine = Math.ceil(columns / Math.ceil(columns / most));
  const size = Math.floor(Math.min(LARGEST, (width + gap) / perLine - gap));
  const wall: Wall = { width, height: 0, size, placed: [], names: [] };
  let [y, line] = [0, 0];
  for (const [site, row] of rows) {
    wall.names.push({ text: site, x: 0, y: y + LINE / 2, align: "left", room: width });
    y += LINE + 4;
    for (let from = 0; from < row.length; from += perLine, y += size + UNDER, line++) {
      row.slice(from, from + perLine).forEach((map, c) => wall.placed.push({ map, x: c * (size + gap), y, line }));
    }
    y += gap;
  }
  return { ...wall, height: y };
}

/** One after the other, each with its name below. */
export function inOrder(maps: PageMap[], { width }: Room, nameOf: (map: PageMap) => string): Wall {
  const gap = 10;
  const perLine = Math.max(1, Math.floor((width + gap) / ((width < 480 ? 78 : 92) + gap)));
  const size = Math.floor(Math.min(LARGEST, (width + gap) / perLine - gap));
  const down = size + UNDER + LINE + 6;
  const wall: Wall = { width, height: Math.ceil(maps.length / perLine) * down, size, placed: [], names: [] };
  maps.forEach((map, i) => {
    const [x, y] = [(i % perLine) * (size + gap), Math.floor(i / perLine) * down];
    wall.placed.push({ map, x, y, line: Math.floor(i / perLine) });
    wall.names.push({
      text: nameOf(map),
      x: x + size / 2,
      y: y + size + UNDER + LINE / 2,
      align: "center",
      room: size + gap - 2,
    });
  });
  return wall;
}

/** The thumbnail under a point, −1 between them. */
export function placeAt(wall: Wall, x: number, y: number): number {
  return wall.placed.findIndex(
    (each) => x >= each.x && x < each.x + wall.size && y >= each.y && y < each.y + wall.size + UNDER,
  );
}

/** Where an arrow key leads from thumbnail `at`: along its line, or to the nearest of the line above or below. */
export function moved(wall: Wall, at: number, key: string): number {
  const { placed } = wall;
  const here = placed[at];
  if (!here) return placed.length ? 0 : -1;
  const line = placed.flatMap((each, i) => (each.line === here.line ? [i] : []));
  if (key === "Home") return line[0]!;
  if (key === "End") return line.at(-1)!;
  if (key === "ArrowLeft" || key === "ArrowRight")
    return Math.max(0, Math.min(placed.length - 1, at + (key === "ArrowLeft" ? -1 : 1)));
  const next = here.line + (key === "ArrowUp" ? -1 : 1);
  const there = placed.flatMap((each, i) => (each.line === next ? [i] : []));
  if (!there.length) return at;
  return there.reduce((best, i) => (Math.abs(placed[i]!.x - here.x) < Math.abs(placed[best]!.x - here.x) ? i : best));
}
