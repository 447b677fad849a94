// A picture leaves the page as it looks now: elements become SVG by where they stand and how they are styled.
import { escaped, FACE } from "./pen";

/** Canvases that can draw themselves again as elements of SVG, in their own coordinates. */
export const redraws = new WeakMap<HTMLCanvasElement, () => string>();

const DRAWN = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "font-size",
  "font-weight",
  "font-style",
  "text-anchor",
  "dominant-baseline",
  "visibility",
  "display",
  "mix-blend-mode",
];
const MARGIN = 16;

/** The element as one SVG file. Parts marked data-export="no" (controls) stay behind. */
export function svgOf(element: HTMLElement, paper: string): string {
  const { width, height, drawn } = drawingOf(element, MARGIN);
  return (
    `${headOf(String(width), String(height), width, height)}` +
    `<rect width="100%" height="100%" fill="${paper}"/>${drawn}</svg>`
  );
}

/** The element without ground or margin, so many millimetres wide as a paper's column; how high it comes out, too. */
export function sheetOf(element: HTMLElement, millimetres: number): { svg: string; height: number } {
  const { width, height, drawn } = drawingOf(element, 0);
  const high = (millimetres / width) * height;
  return { svg: `${headOf(`${millimetres}mm`, `${high.toFixed(3)}mm`, width, height)}${drawn}</svg>`, height: high };
}

function headOf(width: string, height: string, across: number, down: number): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${across} ${down}" ` +
    `font-family="${escaped(FACE)}">`
  );
}

function drawingOf(element: HTMLElement, margin: number): { width: number; height: number; drawn: string } {
  const frame = element.getBoundingClientRect();
  // A sheet without a margin is as wide as its element; one with a margin ends where the picture does.
  const right = margin ? frame.left : frame.right;
  const sheet: Sheet = { x: frame.left - margin, y: frame.top - margin, right, bottom: frame.top };
  const out: string[] = [];
  walk(element, sheet, out);
  const width = Math.ceil(sheet.right - sheet.x) + margin;
  return { width, height: Math.ceil(sheet.bottom - sheet.y) + margin, drawn: out.join("\n") };
}

/** Where the picture begins on the page, and how far what was drawn reaches. */
interface Sheet {
  x: number;
  y: number;
  right: number;
  bottom: number;
}

/** The room of a drawing: one that scrolls on the page leaves it whole, in the size that it names. */
function extent(node: HTMLElement | SVGSVGElement, box: DOMRect): DOMRect {
  const [width, height] = (node.dataset.whole ?? "").split(" ").map(Number);
  return width && height ? new DOMRect(box.left, box.top, width, height) : box;
}

function reach(sheet: Sheet, box: DOMRect): void {
  sheet.right = Math.max(sheet.right, box.right);
  sheet.bottom = Math.max(sheet.bottom, box.bottom);
}

function walk(node: Element, sheet: Sheet, out: string[]): void {
  const style = getComputedStyle(node);
  if (
    style.display === "none" ||
    style.visibility === "hidden" ||
    style.opacity === "0" ||
    (node as HTMLElement).dataset?.export === "no"
  )
    return;
  const box = node.getBoundingClientRect();
  const [x, y] = [box.left - sheet.x, box.top - sheet.y];
  if (node.classList.contains("unseen")) return;
  if (node instanceof HTMLCanvasElement || node instanceof SVGSVGElement || node instanceof HTMLImageElement)
    reach(sheet, extent(node, box));
  if (node instanceof HTMLCanvasElement) return void out.push(canvas(node, x, y, box));
  if (node instanceof SVGSVGElement) return void out.push(drawing(node, x, y, box));
  if (node instanceof HTMLImageElement)
    return void out.push(image(node.src, x, y, box.width, box.height, style.opacity));
  if (ground(style, x, y, box, out)) reach(sheet, box);
  if (node instanceof HTMLInputElement || node instanceof HTMLSelectElement || node instanceof HTMLTextAreaElement)
    return;
  for (const child of node.childNodes) {
    if (child instanceof Element) walk(child, sheet, out);
    else if (child.nodeType === Node.TEXT_NODE) words(child as Text, style, sheet, out);
  }
}

function image(href: string, x: number, y: number, width: number, height: number, opacity = "1"): string {
  return `<image x="${x}" y="${y}" width="${width}" height="${height}" opacity="${opacity}" preserveAspectRatio="none" href="${escaped(href)}"/>`;
}

function canvas(node: HTMLCanvasElement, x: number, y: number, box: DOMRect): string {
  const redraw = redraws.get(node);
  if (redraw) return `<g transform="translate(${x} ${y})">${redraw()}</g>`;
  return node.width && node.height
    ? image(node.toDataURL(), x, y, box.width, box.height, getComputedStyle(node).opacity)
    : "";
}

/** SVG on the page carries its style in the style sheet, which a file has not: it is written onto each element. */
function drawing(node: SVGSVGElement, x: number, y: number, box: DOMRect): string {
  const copy = node.cloneNode(true) as SVGSVGElement;
  const originals = [node, ...node.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]!);
    for (const name of DRAWN) {
      const value = style.getPropertyValue(name);
      if (value) element.setAttribute(name, value);
    }
    element.removeAttribute("class");
    element.removeAttribute("style");
  });
  copy.querySelectorAll("[data-export=no], title, foreignObject").forEach((element) => element.remove());
  for (const [name, value] of Object.entries({ x, y, width: box.width, height: box.height }))
    copy.setAttribute(name, String(value));
  return new XMLSerializer().serializeToString(copy);
}

const CLEAR = /^(transparent|rgba\(.*, 0\))$/;

function ground(style: CSSStyleDeclaration, x: number, y: number, box: DOMRect, out: string[]): boolean {
  const before = out.length;
  if (!CLEAR.test(style.backgroundColor)) {
    const round = parseFloat(style.borderTopLeftRadius) || 0;
    out.push(
      `<rect x="${x}" y="${y}" width="${box.width}" height="${box.height}" rx="${round}" fill="${style.backgroundColor}"/>`,
    );
  }
  const [right, bottom] = [x + box.width, y + box.height];
  const sides = {
    Top: `M${x} ${y}H${right}`,
    Bottom: `M${x} ${bottom}H${right}`,
    Left: `M${x} ${y}V${bottom}`,
    Right: `M${right} ${y}V${bottom}`,
  };
  for (const [side, path] of Object.entries(sides) as ["Top" | "Bottom" | "Left" | "Right", string][]) {
    const thick = parseFloat(style[`border${side}Width`]);
    const colour = style[`border${side}Color`];
    if (thick > 0 && style[`border${side}Style`] !== "none" && !CLEAR.test(colour))
      out.push(`<path d="${path}" stroke="${colour}" stroke-width="${thick}"/>`);
  }
  return out.length > before;
}

/** Text word by word, each where the browser put it: SVG breaks no lines of its own. */
function words(node: Text, style: CSSStyleDeclaration, sheet: Sheet, out: string[]): void {
  const size = parseFloat(style.fontSize);
  const range = document.createRange();
  for (const found of node.data.matchAll(/\S+/g)) {
    for (const [from, to] of lines(node, range, found.index, found.index + found[0].length)) {
      range.setStart(node, from);
      range.setEnd(node, to);
      const box = range.getBoundingClientRect();
      if (!box.width) continue;
      reach(sheet, box);
      const rtl = style.direction === "rtl";
      out.push(
        `<text x="${(rtl ? box.right : box.left) - sheet.x}" y="${(box.top + box.bottom) / 2 - sheet.y}" dy="0.35em" font-size="${size}" ` +
          `font-weight="${style.fontWeight}" font-style="${style.fontStyle}" fill="${style.color}"${rtl ? ' direction="rtl"' : ""}>` +
          `${escaped(node.data.slice(from, to))}</text>`,
      );
    }
  }
}

/** A word that is broken over lines, as its pieces. */
function lines(node: Text, range: Range, from: number, to: number): [number, number][] {
  range.setStart(node, from);
  range.setEnd(node, to);
  if (range.getClientRects().length <= 1 || to - from > 2000) return [[from, to]];
  const pieces: [number, number][] = [];
  let start = from;
  let top: number | null = null;
  for (let at = from; at < to; at++) {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    const now = Math.round(range.getBoundingClientRect().top);
    if (top !== null && Math.abs(now - top) > 4) {
      pieces.push([start, at]);
      start = at;
    }
    top = now;
  }
  return [...pieces, [start, to]];
}

/** The SVG as pixels: two a side of each of its own, or so many across; see-through where nothing is drawn, or on a ground. */
export async function pngOf(svg: string, across?: number, ground?: string): Promise<Blob> {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  const scale = across ? across / picture.naturalWidth : 2;
  canvas.width = Math.round(picture.naturalWidth * scale);
  canvas.height = Math.round(picture.naturalHeight * scale);
  const ctx = canvas.getContext("2d");
  if (ctx && ground) {
    ctx.fillStyle = ground;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
  }
  ctx?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("The picture is too large for this browser."))),
      "image/png",
    ),
  );
}

export function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function fileName(title: string, part: string): string {
  const plain = title
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 60);
  return [plain || "saccade", part].join("-").toLowerCase();
}
