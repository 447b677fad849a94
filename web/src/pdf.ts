// A picture as PDF, from the same elements as its SVG. Letters become shapes, so that no font is missing anywhere.
import type { Outline } from "./outlines";

/** An element of SVG, with what PDF needs of it. */
export interface Shape {
  name: string;
  attributes: Record<string, string>;
  children: Shape[];
  text: string;
}

/** A picture made of pixels: red, green, blue of each, and how opaque each is where some are not. */
export interface Pixels {
  width: number;
  height: number;
  colours: Uint8Array;
  opaque: Uint8Array | null;
}

export interface Sources {
  /** the shapes of a letter, or of letters that are drawn as one */
  letters(text: string, font: string): Outline;
  /** how wide a text is set, in em */
  advance(text: string, font: string): number;
  pixels(address: string): Promise<Pixels>;
}

export interface Page {
  /** of the page, in millimetres */
  width: number;
  height: number;
  title: string;
}

const POINTS = 72 / 25.4; // in a millimetre

type Matrix = [number, number, number, number, number, number];

/** The file's bytes. `root` is an <svg> with a viewBox, which fills the page. */
export async function pdfOf(root: Shape, page: Page, sources: Sources): Promise<Uint8Array> {
  const file = new PdfFile();
  const drawing = new Drawing(file, sources);
  const [, , wide = 1, high = 1] = numbers(root.attributes.viewBox ?? "");
  const [width, height] = [page.width * POINTS, page.height * POINTS];
  // PDF counts upwards from the bottom, SVG downwards from the top.
  drawing.say(`${digits(width / wide)} 0 0 ${digits(-height / high)} 0 ${digits(height)} cm`);
  for (const child of root.children) await drawing.draw(child, START);
  return file.written(await drawing.stream(), drawing.resources(), [width, height], page.title);
}

// The file -------------------------------------------------------------------------------------------------------------

class PdfFile {
  private readonly objects: (Uint8Array | null)[] = [];

  /** the number of an object that is told later, or now */
  add(content: Uint8Array | null = null): number {
    return this.objects.push(content);
  }

  /** A stream of bytes, packed. */
  async stream(entries: string, bytes: Uint8Array): Promise<number> {
    const packed = await deflated(bytes);
    const head = `<< ${entries} /Filter /FlateDecode /Length ${packed.length} >>\nstream\n`;
    return this.add(joined([latin(head), packed, latin("\nendstream")]));
  }

  written(content: number, resources: string, [width, height]: [number, number], title: string): Uint8Array {
    const pages = this.add();
    const box = `[0 0 ${digits(width)} ${digits(height)}]`;
    const page = this.add(
      latin(
        `<< /Type /Page /Parent ${pages} 0 R /MediaBox ${box} /Resources << ${resources} >> /Contents ${content} 0 R >>`,
      ),
    );
    this.objects[pages - 1] = latin(`<< /Type /Pages /Kids [${page} 0 R] /Count 1 >>`);
    const catalog = this.add(latin(`<< /Type /Catalog /Pages ${pages} 0 R >>`));
    const info = this.add(latin(`<< /Title ${titled(title)} /Creator (saccade) >>`));
    // A comment of bytes above 127 tells programs that pass the file on that it is not text.
    const parts = [latin("%PDF-1.4\n%\u00e2\u00e3\u00cf\u00d3\n")];
    let at = parts[0]!.length;
    const places = this.objects.map((object, i) => {
      const part = joined([latin(`${i + 1} 0 obj\n`), object!, latin("\nendobj\n")]);
      const place = at;
      parts.push(part);
      at += part.length;
      return place;
    });
    const table = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("");
    const size = this.objects.length + 1;
    parts.push(
      latin(
        `xref\n0 ${size}\n0000000000 65535 f \n${table}trailer\n<< /Size ${size} /Root ${catalog} 0 R /Info ${info} 0 R >>\n` +
          `startxref\n${at}\n%%EOF\n`,
      ),
    );
    return joined(parts);
  }
}

function latin(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0) & 255);
}

function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

async function deflated(bytes: Uint8Array): Promise<Uint8Array> {
  const packing = new Blob([bytes as BlobPart]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(packing).arrayBuffer());
}

/** A text of any script, as PDF writes it: two bytes a letter. */
function titled(text: string): string {
  const hex = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i).toString(16).padStart(4, "0"));
  return `<feff${hex.join("")}>`;
}

// The drawing ----------------------------------------------------------------------------------------------------------

/** What elements hand down to those in them. */
interface Style {
  fill: string;
  stroke: string;
  thick: number;
  dashes: string;
  cap: string;
  join: string;
  opacity: number;
  fillOpacity: number;
  strokeOpacity: number;
  font: { family: string; size: number; weight: string; style: string };
  anchor: string;
  baseline: string;
  rtl: boolean;
}

const START: Style = {
  fill: "#000",
  stroke: "none",
  thick: 1,
  dashes: "none",
  cap: "butt",
  join: "miter",
  opacity: 1,
  fillOpacity: 1,
  strokeOpacity: 1,
  font: { family: "sans-serif", size: 16, weight: "400", style: "normal" },
  anchor: "start",
  baseline: "auto",
  rtl: false,
};

function styled({ attributes: a }: Shape, from: Style): Style {
  const number = (name: string, old: number) => (a[name] === undefined ? old : parseFloat(a[name]) || 0);
  const { font } = from;
  return {
    fill: a.fill ?? from.fill,
    stroke: a.stroke ?? from.stroke,
    thick: number("stroke-width", from.thick),
    dashes: a["stroke-dasharray"] ?? from.dashes,
    cap: a["stroke-linecap"] ?? from.cap,
    join: a["stroke-linejoin"] ?? from.join,
    opacity: from.opacity * number("opacity", 1),
    fillOpacity: number("fill-opacity", from.fillOpacity),
    strokeOpacity: number("stroke-opacity", from.strokeOpacity),
    font: {
      family: a["font-family"] ?? font.family,
      size: number("font-size", font.size),
      weight: a["font-weight"] ?? font.weight,
      style: a["font-style"] ?? font.style,
    },
    anchor: a["text-anchor"] ?? from.anchor,
    baseline: a["dominant-baseline"] ?? from.baseline,
    rtl: a.direction === undefined ? from.rtl : a.direction === "rtl",
  };
}

/** Letters that need their neighbours (marks, Arabic, Indic scripts) are drawn a text at a time, all others one by one. */
const APART =
  /^[\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{N}\p{P}\p{Sm}\p{Sc}\p{Zs}]*$/u;

class Drawing {
  private readonly told: string[] = [];
  private readonly things = new Map<string, number>();
  private readonly named = new Map<string, string>();
  private readonly clips = new Map<string, Shape>();

  constructor(
    private readonly file: PdfFile,
    private readonly sources: Sources,
  ) {}

  say(line: string): void {
    this.told.push(line);
  }

  stream(): Promise<number> {
    return this.file.stream("", latin(this.told.join("\n")));
  }

  resources(): string {
    const listed = (letter: string) =>
      [...this.things]
        .flatMap(([name, number]) => (name.startsWith(letter) ? [`/${name} ${number} 0 R`] : []))
        .join(" ");
    return `/XObject << ${listed("X")} >> /ExtGState << ${listed("G")} >>`;
  }

  /** The name of an object of the file, made when it is first needed. */
  private async thing(letter: string, of: string, make: () => Promise<number> | number): Promise<string> {
    const known = this.named.get(`${letter}${of}`);
    if (known) return known;
    const name = `${letter}${this.named.size}`;
    this.named.set(`${letter}${of}`, name);
    this.things.set(name, await make());
    return name;
  }

  async draw(shape: Shape, from: Style): Promise<void> {
    const { name, attributes: a } = shape;
    if (a.display === "none" || a.visibility === "hidden") return;
    if (name === "clipPath") return void this.clips.set(a.id ?? "", shape);
    const style = styled(shape, from);
    if (style.opacity === 0) return;
    const clip = this.clips.get(/^url\(#(.*)\)$/.exec(a["clip-path"] ?? "")?.[1] ?? "");
    const transforms = [...transformed(a.transform ?? ""), ...(name === "svg" ? [placed(a)] : [])];
    const apart = clip !== undefined || transforms.length > 0;
    if (apart) this.say("q");
    for (const matrix of transforms) this.say(`${matrix.map((part) => digits(part, 5)).join(" ")} cm`);
    if (clip) for (const { attributes } of clip.children) this.say(`${boxOf(attributes)} re W n`);
    if (name === "text") await this.text(shape, style);
    else if (name === "image") await this.image(a, style);
    else if (name === "g" || name === "svg") for (const child of shape.children) await this.draw(child, style);
    else await this.paint(pathOf(shape), style);
    if (apart) this.say("Q");
  }

  private async paint(path: string, style: Style): Promise<void> {
    // Between two points there is nothing to fill, and programs that did would draw a hair there.
    const fill = path.split("\n").length > 2 || / re$/.test(path) ? colourOf(style.fill) : null;
    const stroke = style.thick > 0 ? colourOf(style.stroke) : null;
    if (!path || (!fill && !stroke)) return;
    const opaque = [
      style.opacity * style.fillOpacity * (fill?.opaque ?? 1),
      style.opacity * style.strokeOpacity * (stroke?.opaque ?? 1),
    ];
    const clear = opaque.some((share) => share < 1);
    if (clear) this.say(`q /${await this.see(opaque)} gs`);
    if (fill) this.say(`${fill.parts} rg`);
    if (stroke) {
      const dashes =
        style.dashes === "none"
          ? ""
          : numbers(style.dashes)
              .map((part) => digits(part))
              .join(" ");
      const ends = { round: 1, square: 2 }[style.cap] ?? 0;
      this.say(
        `${stroke.parts} RG ${digits(style.thick)} w [${dashes}] 0 d ${ends} J ${style.join === "round" ? 1 : 0} j`,
      );
    }
    this.say(`${path} ${fill && stroke ? "B" : fill ? "f" : "S"}`);
    if (clear) this.say("Q");
  }

  private see([fill = 1, stroke = 1]: number[]): Promise<string> {
    const told = `/ca ${digits(fill)} /CA ${digits(stroke)}`;
    return this.thing("G", told, () => this.file.add(latin(`<< /Type /ExtGState ${told} >>`)));
  }

  private async text(shape: Shape, style: Style): Promise<void> {
    const text = shape.text.replace(/\s+/g, " ").trim();
    const fill = colourOf(style.fill);
    if (!text || !fill) return;
    const { size, family, weight, style: slant } = style.font;
    const font = `${slant} ${weight} 1em ${family}`;
    const pieces = APART.test(text) && !/\p{M}/u.test(text) ? [...text] : [text];
    const outlines = pieces.map((piece) => this.sources.letters(piece, font));
    // The letters of a word stand as the word is set, not as each would alone.
    const places = pieces.map((_, i) => (i ? this.sources.advance(pieces.slice(0, i).join(""), font) : 0));
    const wide = this.sources.advance(text, font);
    const share = { middle: 0.5, end: 1 }[style.anchor] ?? 0;
    const raised = /^(middle|central)$/.test(style.baseline) ? 0.33 : 0;
    const { attributes: a } = shape;
    const x = (parseFloat(a.x ?? "0") || 0) - (style.rtl && share !== 0.5 ? 1 - share : share) * wide * size;
    const y =
      (parseFloat(a.y ?? "0") || 0) +
      (raised + (parseFloat(a.dy ?? "0") || 0) * (/em$/.test(a.dy ?? "") ? 1 : 0)) * size;
    const opaque = style.opacity * style.fillOpacity * fill.opaque;
    this.say(`q ${opaque < 1 ? `/${await this.see([opaque, opaque])} gs ` : ""}${fill.parts} rg`);
    for (const [i, lines] of outlines.entries()) {
      if (!lines.length) continue;
      const name = await this.thing("X", `${font}|${pieces[i]}`, () => this.file.stream(formOf(lines), ink(lines)));
      this.say(
        `q ${digits(size / UNITS, 6)} 0 0 ${digits(size / UNITS, 6)} ${digits(x + places[i]! * size)} ${digits(y)} cm /${name} Do Q`,
      );
    }
    this.say("Q");
  }

  private async image(a: Record<string, string>, style: Style): Promise<void> {
    const address = a.href ?? a["xlink:href"] ?? "";
    const name = await this.thing("X", address, async () => {
      const { width, height, colours, opaque } = await this.sources.pixels(address);
      const kind = `/Type /XObject /Subtype /Image /Width ${width} /Height ${height} /BitsPerComponent 8`;
      const mask = opaque && (await this.file.stream(`${kind} /ColorSpace /DeviceGray`, opaque));
      return this.file.stream(`${kind} /ColorSpace /DeviceRGB${mask ? ` /SMask ${mask} 0 R` : ""}`, colours);
    });
    const [x, y, width, height] = ["x", "y", "width", "height"].map((side) => parseFloat(a[side] ?? "0") || 0);
    const seen = style.opacity < 1 ? `/${await this.see([style.opacity, style.opacity])} gs ` : "";
    this.say(
      `q ${seen}${digits(width!)} 0 0 ${digits(-height!)} ${digits(x!)} ${digits(y! + height!)} cm /${name} Do Q`,
    );
  }
}

const UNITS = 1000; // in an em

/** The form that one letter is: coordinates in thousandths of an em. */
function formOf(lines: number[][]): string {
  const [xs, ys] = [0, 1].map((side) => lines.flatMap((line) => line.filter((_, i) => i % 2 === side)));
  const edge = (values: number[], pick: "min" | "max") =>
    values.reduce((found, value) => Math[pick](found, value), values[0]!) * UNITS;
  const box = [edge(xs!, "min") - 9, edge(ys!, "min") - 9, edge(xs!, "max") + 9, edge(ys!, "max") + 9];
  return `/Type /XObject /Subtype /Form /BBox [${box.map((side) => digits(side, 0)).join(" ")}]`;
}

function ink(lines: number[][]): Uint8Array {
  const told = lines.map((line) => {
    const points = Array.from({ length: line.length / 2 }, (_, i) =>
      [line[2 * i]!, line[2 * i + 1]!].map((value) => digits(value * UNITS, 1)).join(" "),
    );
    return `${points[0]} m ${points
      .slice(1)
      .map((point) => `${point} l`)
      .join(" ")} h`;
  });
  return latin(`${told.join("\n")} f*`);
}

// Shapes as paths ------------------------------------------------------------------------------------------------------

function digits(value: number, after = 3): string {
  if (!Number.isFinite(value)) return "0";
  const text = value.toFixed(after);
  return (after ? text.replace(/\.?0+$/, "") : text).replace(/^-0$/, "0");
}

function numbers(text: string): number[] {
  return (text.match(/[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?/gi) ?? []).map(Number);
}

function side(attributes: Record<string, string>, name: string): number {
  return parseFloat(attributes[name] ?? "0") || 0;
}

function boxOf(a: Record<string, string>): string {
  return ["x", "y", "width", "height"].map((name) => digits(side(a, name))).join(" ");
}

const ROUND = 0.5523; // how far a curve's handles reach, for a quarter of a circle

function pathOf({ name, attributes: a }: Shape): string {
  if (name === "rect") {
    const [x, y, width, height] = ["x", "y", "width", "height"].map((each) => side(a, each)) as [
      number,
      number,
      number,
      number,
    ];
    if (!(width > 0 && height > 0)) return "";
    const r = Math.min(side(a, "rx"), width / 2, height / 2);
    if (!r) return `${boxOf(a)} re`;
    const [right, below, k] = [x + width, y + height, r * (1 - ROUND)];
    return written([
      ["m", x + r, y],
      ["l", right - r, y],
      ["c", right - k, y, right, y + k, right, y + r],
      ["l", right, below - r],
      ["c", right, below - k, right - k, below, right - r, below],
      ["l", x + r, below],
      ["c", x + k, below, x, below - k, x, below - r],
      ["l", x, y + r],
      ["c", x, y + k, x + k, y, x + r, y],
      ["h"],
    ]);
  }
  if (name === "circle" || name === "ellipse") {
    const [x, y] = [side(a, "cx"), side(a, "cy")];
    const [rx, ry] = name === "circle" ? [side(a, "r"), side(a, "r")] : [side(a, "rx"), side(a, "ry")];
    const [kx, ky] = [rx * ROUND, ry * ROUND];
    return written([
      ["m", x + rx, y],
      ["c", x + rx, y + ky, x + kx, y + ry, x, y + ry],
      ["c", x - kx, y + ry, x - rx, y + ky, x - rx, y],
      ["c", x - rx, y - ky, x - kx, y - ry, x, y - ry],
      ["c", x + kx, y - ry, x + rx, y - ky, x + rx, y],
      ["h"],
    ]);
  }
  if (name === "line")
    return written([
      ["m", side(a, "x1"), side(a, "y1")],
      ["l", side(a, "x2"), side(a, "y2")],
    ]);
  if (name === "polyline" || name === "polygon") {
    const points = numbers(a.points ?? "");
    const steps = Array.from({ length: Math.floor(points.length / 2) }, (_, i): Step => [
      i ? "l" : "m",
      points[2 * i]!,
      points[2 * i + 1]!,
    ]);
    return written(name === "polygon" ? [...steps, ["h"]] : steps);
  }
  return name === "path" ? written(stepsOf(a.d ?? "")) : "";
}

type Step = ["m" | "l", number, number] | ["c", number, number, number, number, number, number] | ["h"];

function written(steps: Step[]): string {
  return steps.map(([kind, ...places]) => [...places.map((place) => digits(place)), kind].join(" ")).join("\n");
}

const TAKES: Record<string, number> = { m: 2, l: 2, h: 1, v: 1, c: 6, q: 4, z: 0 };

/** A path of SVG (moves, lines, curves) in the words of PDF. */
export function stepsOf(path: string): Step[] {
  const steps: Step[] = [];
  let [x, y, startX, startY] = [0, 0, 0, 0];
  for (const [, letter = "", rest = ""] of path.matchAll(/([mlhvcqz])([^mlhvcqz]*)/gi)) {
    const [kind, relative] = [letter.toLowerCase(), letter !== letter.toUpperCase()];
    const [takes, all] = [TAKES[kind]!, numbers(rest)];
    for (let at = 0; at === 0 || at + takes <= all.length; at += Math.max(1, takes)) {
      const given = all.slice(at, at + takes);
      if (given.length < takes) break;
      const from = relative ? [x, y] : [0, 0];
      const places = given.map(
        (value, i) => value + (kind === "v" ? from[1]! : kind === "h" ? from[0]! : from[i % 2]!),
      );
      if (kind === "z") {
        steps.push(["h"]);
        [x, y] = [startX, startY];
        break;
      }
      const [ex, ey] =
        kind === "h" ? [places[0]!, y] : kind === "v" ? [x, places[0]!] : (places.slice(-2) as [number, number]);
      if (kind === "m" && at === 0) {
        steps.push(["m", ex, ey]);
        [startX, startY] = [ex, ey];
      } else if (kind === "c") steps.push(["c", places[0]!, places[1]!, places[2]!, places[3]!, ex, ey]);
      else if (kind === "q") {
        // A curve pulled by one point, as one pulled by two.
        const [px, py] = [places[0]!, places[1]!];
        steps.push([
          "c",
          x + (2 / 3) * (px - x),
          y + (2 / 3) * (py - y),
          ex + (2 / 3) * (px - ex),
          ey + (2 / 3) * (py - ey),
          ex,
          ey,
        ]);
      } else steps.push(["l", ex, ey]);
      [x, y] = [ex, ey];
    }
  }
  return steps;
}

/** rotate(−45 10 20), translate(3 4), scale(2), matrix(…): in the order in which they are written. */
function transformed(text: string): Matrix[] {
  return [...text.matchAll(/(\w+)\(([^)]*)\)/g)].flatMap(([, kind, inside]): Matrix[] => {
    const [a = 0, b = 0, c = 0, ...more] = numbers(inside!);
    if (kind === "translate") return [[1, 0, 0, 1, a, b]];
    if (kind === "scale") return [[a, 0, 0, numbers(inside!).length > 1 ? b : a, 0, 0]];
    if (kind === "matrix" && more.length === 3) return [[a, b, c, ...(more as [number, number, number])]];
    if (kind !== "rotate") return [];
    const [cos, sin] = [Math.cos((a * Math.PI) / 180), Math.sin((a * Math.PI) / 180)];
    return [[cos, sin, -sin, cos, b - b * cos + c * sin, c - b * sin - c * cos]];
  });
}

/** Where an <svg> within another stands, and how its own numbers become those around it. */
function placed(a: Record<string, string>): Matrix {
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => side(a, name)) as [
    number,
    number,
    number,
    number,
  ];
  const [left, top, wide, high] = numbers(a.viewBox ?? "");
  if (!wide || !high || !width || !height) return [1, 0, 0, 1, x, y];
  const [kx, ky] = [width / wide, height / high];
  if (a.preserveAspectRatio === "none") return [kx, 0, 0, ky, x - left! * kx, y - top! * ky];
  const k = Math.min(kx, ky);
  return [k, 0, 0, k, x + (width - wide * k) / 2 - left! * k, y + (height - high * k) / 2 - top! * k];
}

/** #abc, #aabbcc, rgb(…), rgba(…), and what browsers make of color-mix: color(srgb …). null: nothing is painted. */
export function colourOf(text: string): { parts: string; opaque: number } | null {
  const told = (parts: number[], opaque = 1) =>
    opaque > 0 ? { parts: parts.map((part) => digits(part, 4)).join(" "), opaque } : null;
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text)?.[1];
  if (hex) {
    const step = hex.length / 3;
    return told([0, 1, 2].map((i) => parseInt(hex.slice(i * step, (i + 1) * step).repeat(3 - step), 16) / 255));
  }
  const found = numbers(text.replace(/^color\(srgb/, ""));
  if (/^color\(srgb/.test(text)) return told(found.slice(0, 3), found[3]);
  if (/^rgb/.test(text))
    return told(
      found.slice(0, 3).map((part) => part / 255),
      found[3],
    );
  return text === "black" || text === "currentColor" ? told([0, 0, 0]) : null;
}
