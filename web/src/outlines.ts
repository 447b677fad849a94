// Letters as shapes: a PDF that holds them needs no font, whatever the script. A letter is drawn large, and the line where
// its ink is half covered is followed (marching squares).

/** Closed lines in units of one em, y downwards from the baseline: x, y, x, y, … */
export type Outline = number[][];

const HALF = 127.5; // of 255: the edge of the ink
const STRAY = 0.2; // pixels that a simplified line may stray

// The edges of a square of four pixels: above, right, below, left. For each pattern of corners that lie in the ink (8: top
// left, 4: top right, 2: bottom right, 1: bottom left) the lines across it, with the ink at their right.
const [ABOVE, RIGHT, BELOW, LEFT] = [0, 1, 2, 3];
const CROSSINGS: [number, number][][] = [
  [],
  [[LEFT, BELOW]],
  [[BELOW, RIGHT]],
  [[LEFT, RIGHT]],
  [[RIGHT, ABOVE]],
  [
    [RIGHT, ABOVE],
    [LEFT, BELOW],
  ],
  [[BELOW, ABOVE]],
  [[LEFT, ABOVE]],
  [[ABOVE, LEFT]],
  [[ABOVE, BELOW]],
  [
    [ABOVE, LEFT],
    [BELOW, RIGHT],
  ],
  [[ABOVE, RIGHT]],
  [[RIGHT, LEFT]],
  [[RIGHT, BELOW]],
  [[BELOW, LEFT]],
  [],
];

/** The closed lines around what is covered more than half: x, y, x, y, … in pixels, to fractions of one. */
export function contours(cover: ArrayLike<number>, width: number, height: number): number[][] {
  const at = (x: number, y: number) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : cover[y * width + x]!);
  const wide = width + 2;
  // An edge by its number: two for each pixel, the one to its right and the one below it.
  const edge = (x: number, y: number, side: number) => {
    if (side === ABOVE) return 2 * ((y + 1) * wide + x + 1);
    if (side === BELOW) return 2 * ((y + 2) * wide + x + 1);
    return 2 * ((y + 1) * wide + x + (side === LEFT ? 1 : 2)) + 1;
  };
  const next = new Map<number, number>();
  for (let y = -1; y < height; y++)
    for (let x = -1; x < width; x++) {
      const ink = (dx: number, dy: number) => (at(x + dx, y + dy) > HALF ? 1 : 0);
      const pattern = 8 * ink(0, 0) + 4 * ink(1, 0) + 2 * ink(1, 1) + ink(0, 1);
      for (const [from, to] of CROSSINGS[pattern]!) next.set(edge(x, y, from), edge(x, y, to));
    }
  const place = (number: number): [number, number] => {
    const pixel = number >> 1;
    const [x, y] = [(pixel % wide) - 1, Math.floor(pixel / wide) - 1];
    const [dx, dy] = number & 1 ? [0, 1] : [1, 0];
    const [one, other] = [at(x, y), at(x + dx, y + dy)];
    const share = (HALF - one) / (other - one);
    return [x + dx * share + 0.5, y + dy * share + 0.5];
  };
  const found: number[][] = [];
  for (const start of [...next.keys()]) {
    const line: number[] = [];
    for (let now: number | undefined = start; now !== undefined && next.has(now);) {
      line.push(...place(now));
      const following: number = next.get(now)!;
      next.delete(now);
      now = following;
    }
    if (line.length >= 6) found.push(simpler(line, STRAY));
  }
  return found;
}

/** The closed line with fewer points, none of which strays further than `stray` (Douglas and Peucker). */
export function simpler(line: number[], stray: number): number[] {
  const count = line.length / 2;
  const [x, y] = [(i: number) => line[2 * (i % count)]!, (i: number) => line[2 * (i % count) + 1]!];
  let far = 0;
  for (let i = 1; i < count; i++)
    if (Math.hypot(x(i) - x(0), y(i) - y(0)) > Math.hypot(x(far) - x(0), y(far) - y(0))) far = i;
  const kept = new Set([0, far]);
  const parts: [number, number][] = [
    [0, far],
    [far, count],
  ];
  for (let part = parts.pop(); part; part = parts.pop()) {
    const [from, to] = part;
    const [dx, dy] = [x(to) - x(from), y(to) - y(from)];
    const long = Math.hypot(dx, dy) || 1;
    let [most, where] = [0, -1];
    for (let i = from + 1; i < to; i++) {
      const off = Math.abs(dx * (y(i) - y(from)) - dy * (x(i) - x(from))) / long;
      if (off > most) [most, where] = [off, i];
    }
    if (most <= stray || where < 0) continue;
    kept.add(where);
    parts.push([from, where], [where, to]);
  }
  return [...kept].sort((a, b) => a - b).flatMap((i) => [x(i), y(i)]);
}

const EM = 160; // pixels

/** Letters as this browser draws them, each followed once. A font is told as CSS tells it, with 1em for its size. */
export function letterer(): {
  letters(text: string, font: string): Outline;
  advance(text: string, font: string): number;
} {
  const ctx = document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
  const found = new Map<string, Outline>();
  const measured = (text: string, font: string) => {
    ctx.font = font.replace("1em", `${EM}px`);
    return ctx.measureText(text);
  };
  const follow = (text: string, font: string): Outline => {
    const size = measured(text, font);
    const [left, up] = [Math.ceil(size.actualBoundingBoxLeft) + 2, Math.ceil(size.actualBoundingBoxAscent) + 2];
    const width = Math.max(1, left + Math.ceil(size.actualBoundingBoxRight) + 2);
    const height = Math.max(1, up + Math.ceil(size.actualBoundingBoxDescent) + 2);
    // A canvas that changes its size forgets its font.
    Object.assign(ctx.canvas, { width, height });
    measured(text, font);
    ctx.fillText(text, left, up);
    const { data } = ctx.getImageData(0, 0, width, height);
    const cover = Uint8Array.from({ length: width * height }, (_, i) => data[4 * i + 3]!);
    return contours(cover, width, height).map((line) => line.map((value, i) => (value - (i % 2 ? up : left)) / EM));
  };
  return {
    advance: (text, font) => measured(text, font).width / EM,
    letters(text, font) {
      const name = `${font}|${text}`;
      let outline = found.get(name);
      if (!outline) found.set(name, (outline = follow(text, font)));
      return outline;
    },
  };
}
