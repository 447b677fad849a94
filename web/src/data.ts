// Page data → numbers, as they are asked for. Blocks are inflated when first needed and kept.
import { dense, fromEdges, rounded, sparse, steps } from "./matrices";
import type { Block, LoadedTrace, Matrix, Numbers, PageAxis, PageData, PageMap, PageTrace } from "./types";

/** Something the reader should be told, in words that say what to do. */
export class PageError extends Error {}

const VERSION = 1;

/** The bytes of a numbered block. */
export type Blocks = (number: number) => Promise<Uint8Array>;

export function readHeader(text: string | null | undefined): PageData {
  if (!text || !text.trim()) throw new PageError('This page holds no data. Save it again with trace.save("x.html").');
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch {
    throw new PageError("The data in this page cannot be read: the file was cut short or changed. Save it again.");
  }
  return checked(header);
}

export function checked(header: unknown): PageData {
  const page = header as Partial<PageData> | null;
  if (!page || page.format !== "saccade-page") {
    throw new PageError('The data in this page is not a saccade page. Save it again with trace.save("x.html").');
  }
  if (page.version !== VERSION) {
    throw new PageError(
      `This page was written as version ${String(page.version)} and this explorer reads version ${VERSION}. ` +
        "Save it again with the saccade you have now.",
    );
  }
  if (!Array.isArray(page.traces)) throw new PageError("The data in this page names no traces. Save it again.");
  return page as PageData;
}

/** Blocks of a saved page: base64 text in script elements, each read when it is needed and then dropped. */
export function blocksOf(root: ParentNode): Blocks {
  const elements = new Map<number, HTMLElement>();
  for (const element of root.querySelectorAll<HTMLElement>("script.saccade-block")) {
    elements.set(Number(element.dataset.block), element);
  }
  return inflated(
    (number) => elements.get(number)?.textContent ?? undefined,
    (number) => {
      elements.get(number)?.remove();
      elements.delete(number);
    },
  );
}

export function blocksFrom(texts: string[]): Blocks {
  return inflated(
    (number) => texts[number],
    () => undefined,
  );
}

function inflated(find: (number: number) => string | undefined, forget: (number: number) => void): Blocks {
  const kept = new Map<number, Promise<Uint8Array>>();
  return (number) => {
    let bytes = kept.get(number);
    if (!bytes) {
      bytes = inflate(find(number), number).then((found) => {
        forget(number);
        return found;
      });
      kept.set(number, bytes);
    }
    return bytes;
  };
}

async function inflate(text: string | undefined, number: number): Promise<Uint8Array> {
  if (text === undefined)
    throw new PageError(`Block ${number} is missing from this page: it was cut short. Save it again.`);
  try {
    const packed = fromBase64(text);
    const stream = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new PageError(`Block ${number} of this page is damaged, so its numbers cannot be shown. Save it again.`);
  }
}

/** Browsers of 2025 and later decode base64 by themselves, ten times as quickly. */
const quick = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;

export function fromBase64(text: string): Uint8Array {
  if (quick) return quick.call(Uint8Array, text);
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

const SIZES = { f32: 4, i32: 4, u8: 1 };

function size(shape: number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}

/** A block's bytes as numbers. A block shared by several (thumbnails) may be longer than its shape says. */
function numbersOf(block: Block, bytes: Uint8Array): Numbers {
  const count = size(block.shape);
  if (bytes.byteLength < count * SIZES[block.dtype]) {
    throw new PageError(
      `Block ${block.block} of this page is too short for its shape ${block.shape.join(" × ")}. Save it again.`,
    );
  }
  // A view must begin at a multiple of 4 bytes; inflated buffers do.
  if (block.dtype === "u8") return bytes.subarray(0, count);
  return block.dtype === "f32"
    ? new Float32Array(bytes.buffer, bytes.byteOffset, count)
    : new Int32Array(bytes.buffer, bytes.byteOffset, count);
}

export function loadTrace(page: PageTrace, blocks: Blocks): LoadedTrace {
  const matrices = new Map<Block, Promise<Matrix>>();
  const looks = new Map<PageMap, Promise<Matrix>>();
  const numbers = async (block: Block) => numbersOf(block, await blocks(block.block));
  const floats = async (block: Block) => {
    const found = await numbers(block);
    if (!block.rows || !(found instanceof Uint8Array)) return { values: found, exact: block.dtype !== "u8" };
    const maxima = await numbers(block.rows);
    const width = found.length / Math.max(1, maxima.length);
    const values = new Float32Array(found.length);
    for (let i = 0; i < found.length; i++) values[i] = (found[i]! / 255) ** 2 * maxima[Math.floor(i / width)]!;
    return { values, exact: false };
  };
  const matrix = (block: Block) => {
    let found = matrices.get(block);
    if (!found) matrices.set(block, (found = toMatrix(block, numbers)));
    return found;
  };
  const trace: LoadedTrace = {
    ...page,
    about: withGiven(page),
    sites: [...new Set(page.maps.map((map) => map.site))],
    numbers,
    weights(map) {
      let found = looks.get(map);
      if (!found) looks.set(map, (found = weightsOf(map, matrix, floats)));
      return found;
    },
    scores: async (map) => (map.tensors.scores ? matrix(map.tensors.scores) : null),
    async signal(name, head = null) {
      const block = page.signals[name]?.values;
      return block ? ofHead(await matrix(block), block.shape, head) : null;
    },
    probability: async () => (page.outputs ? matrix(page.outputs.probability) : null),
    async thumb(map) {
      if (!map.thumb) return null;
      const { block, at, rows, columns } = map.thumb;
      return (await numbers(block)).subarray(at, at + rows * columns) as Uint8Array;
    },
    mapsOf: (site) => page.maps.filter((map) => map.site === site),
    lookSite() {
      const across = page.maps.filter((map) => map.query !== map.key);
      return (across.at(-1) ?? page.maps.at(-1))?.site ?? null;
    },
    axis: (name) => page.axes[name] ?? numbered(page, name),
  };
  return trace;
}

/** What was read before the first output (a prompt) stands on the same axis and has none; newer traces say how much it is. */
function withGiven({ about, axes, outputs }: PageTrace): PageTrace["about"] {
  if (about.given !== undefined || about.output_kind !== "continuation" || !outputs?.labels.length) return about;
  return { ...about, given: Math.max(0, (axes[outputs.axis]?.labels.length ?? 0) - outputs.labels.length) };
}

/** Of vectors [positions, heads, numbers] those of one head; all where no head is meant, or where they have none. */
function ofHead(all: Matrix, shape: number[], head: number | null): Matrix | null {
  const [rows = 0, heads = 0, wide = 0] = shape;
  if (head === null || shape.length < 3) return all;
  if (head >= heads) return null;
  const values = new Float32Array(rows * wide);
  for (let row = 0; row < rows; row++) values.set(all.row(row).subarray(head * wide, (head + 1) * wide), row * wide);
  return dense(values, rows, wide);
}

async function toMatrix(block: Block, numbers: (block: Block) => Promise<Numbers>): Promise<Matrix> {
  const [rows = 0, ...others] = block.shape;
  const columns = others.length ? size(others) : 0;
  const found = await numbers(block);
  if (found instanceof Uint8Array) {
    const maxima = block.rows ? ((await numbers(block.rows)) as Float32Array) : new Float32Array(rows).fill(1);
    return rounded(found, maxima, rows, columns);
  }
  return dense(found instanceof Float32Array ? found : Float32Array.from(found), rows, columns);
}

type Floats = (block: Block) => Promise<{ values: Numbers; exact: boolean }>;

async function weightsOf(map: PageMap, matrix: (block: Block) => Promise<Matrix>, floats: Floats): Promise<Matrix> {
  const tensor = (name: string): Block => {
    const block = map.tensors[name];
    if (!block) throw new PageError(`The map of ${map.site} has no ${name} in this page. Save it again.`);
    return block;
  };
  if (map.kind === "dense") return matrix(tensor("weights"));
  if (map.kind === "edges") {
    const [edges, weights] = await Promise.all([floats(tensor("edges")), floats(tensor("weights"))]);
    return fromEdges(edges.values, weights.values, map.queries, map.keys);
  }
  if (map.kind === "top") {
    const [index, weights, residual] = await Promise.all(
      ["index", "weights", "residual"].map((name) => floats(tensor(name))),
    );
    const k = tensor("weights").shape[1] ?? 0;
    return sparse(
      steps(map.queries, k),
      index!.values,
      weights!.values,
      map.keys,
      Float32Array.from(residual!.values),
      weights!.exact,
    );
  }
  // Statistics keep the largest weight of each row and where it is: a map of one entry a row.
  const [maximum, argmax] = await Promise.all([floats(tensor("maximum")), floats(tensor("argmax"))]);
  const rest = Float32Array.from(maximum.values, (weight) => Math.max(0, 1 - weight));
  return sparse(steps(map.queries, 1), argmax.values, maximum.values, map.keys, rest, maximum.exact);
}

/** Positions 0, 1, 2, … as many as the maps and signals of a trace need of an axis it does not describe. */
function numbered(page: PageTrace, name: string): PageAxis {
  let count = 0;
  for (const map of page.maps) {
    if (map.query === name) count = Math.max(count, map.step + map.queries);
    if (map.key === name) count = Math.max(count, map.keys);
  }
  for (const signal of Object.values(page.signals)) {
    if (signal.axis === name) count = Math.max(count, signal.step + (signal.values.shape[0] ?? 0));
  }
  const axis: PageAxis = {
    kind: "positions",
    labels: Array.from({ length: count }, (_, i) => String(i)),
    parent: null,
    within: [],
  };
  page.axes[name] = axis;
  return axis;
}
