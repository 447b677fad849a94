// One drawing, two papers: what a picture draws goes to a canvas on the screen and to SVG when it leaves the page.

export const FACE = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif";
/** pixels: labels in pictures */
export const SMALL = 13;

export interface TextStyle {
  fill: string;
  align?: "left" | "center" | "right";
  /** degrees, clockwise */
  angle?: number;
  bold?: boolean;
  size?: number;
}

export type Curve = [number, number, number, number, number, number, number, number];

export interface Pen {
  rect(x: number, y: number, width: number, height: number, fill: string): void;
  frame(x: number, y: number, width: number, height: number, stroke: string, thick: number, dashes?: number[]): void;
  line(x1: number, y1: number, x2: number, y2: number, stroke: string, thick: number): void;
  /** from a point, pulled by two others, to a last one: x and y of each */
  curve(points: Curve, stroke: string, thick: number, opacity: number): void;
  /** y is the middle of the line */
  text(text: string, x: number, y: number, style: TextStyle): void;
  pixels(pixels: ImageData, x: number, y: number, width: number, height: number): void;
  within(x: number, y: number, width: number, height: number, draw: () => void): void;
}

export function canvasPen(ctx: CanvasRenderingContext2D): Pen {
  return {
    rect(x, y, width, height, fill) {
      ctx.fillStyle = fill;
      ctx.fillRect(x, y, width, height);
    },
    frame(x, y, width, height, stroke, thick, dashes = []) {
      ctx.strokeStyle = stroke;
      ctx.lineWidth = thick;
      ctx.setLineDash(dashes);
      ctx.strokeRect(x, y, width, height);
      ctx.setLineDash([]);
    },
    line(x1, y1, x2, y2, stroke, thick) {
      ctx.strokeStyle = stroke;
      ctx.lineWidth = thick;
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      ctx.lineTo(x2, y2);
      ctx.stroke();
    },
    curve([x1, y1, ...rest], stroke, thick, opacity) {
      ctx.strokeStyle = stroke;
      ctx.lineWidth = thick;
      ctx.globalAlpha = opacity;
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      ctx.bezierCurveTo(...rest);
      ctx.stroke();
      ctx.globalAlpha = 1;
    },
    text: (text, x, y, style) => write(ctx, text, x, y, style),
    pixels(pixels, x, y, width, height) {
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(painted(pixels), x, y, width, height);
    },
    within(x, y, width, height, draw) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, width, height);
      ctx.clip();
      draw();
      ctx.restore();
    },
  };
}

function write(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, style: TextStyle): void {
  const { fill, align = "left", angle = 0, bold = false, size = SMALL } = style;
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate((angle * Math.PI) / 180);
  ctx.font = `${bold ? "600 " : ""}${size}px ${FACE}`;
  ctx.fillStyle = fill;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  ctx.fillText(text, 0, 0);
  ctx.restore();
}

function painted(pixels: ImageData): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
  return canvas;
}

// What XML 1.0 cannot hold even when escaped.
const UNWRITABLE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function escaped(text: string): string {
  return text.replace(UNWRITABLE, "\ufffd").replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

const ANCHORS = { left: "start", center: "middle", right: "end" };

function digits(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** Writes elements of SVG into `out`. */
export function svgPen(out: string[]): Pen {
  const box = (x: number, y: number, width: number, height: number) =>
    `x="${digits(x)}" y="${digits(y)}" width="${digits(Math.max(0, width))}" height="${digits(Math.max(0, height))}"`;
  return {
    rect: (x, y, width, height, fill) => void out.push(`<rect ${box(x, y, width, height)} fill="${fill}"/>`),
    frame(x, y, width, height, stroke, thick, dashes = []) {
      const dashed = dashes.length ? ` stroke-dasharray="${dashes.join(" ")}"` : "";
      out.push(`<rect ${box(x, y, width, height)} fill="none" stroke="${stroke}" stroke-width="${thick}"${dashed}/>`);
    },
    line: (x1, y1, x2, y2, stroke, thick) =>
      void out.push(
        `<path d="M${digits(x1)} ${digits(y1)}L${digits(x2)} ${digits(y2)}" stroke="${stroke}" stroke-width="${thick}"/>`,
      ),
    curve([x1, y1, ...rest], stroke, thick, opacity) {
      const path = `M${digits(x1)} ${digits(y1)}C${rest.map(digits).join(" ")}`;
      const ink = `stroke="${stroke}" stroke-width="${digits(thick)}" stroke-opacity="${digits(opacity)}"`;
      out.push(`<path d="${path}" fill="none" ${ink}/>`);
    },
    text(text, x, y, { fill, align = "left", angle = 0, bold = false, size = SMALL }) {
      const turned = angle ? ` transform="rotate(${angle} ${digits(x)} ${digits(y)})"` : "";
      out.push(
        `<text x="${digits(x)}" y="${digits(y)}" dy="0.35em" text-anchor="${ANCHORS[align]}" font-size="${size}" ` +
          `${bold ? 'font-weight="600" ' : ""}fill="${fill}"${turned}>${escaped(text)}</text>`,
      );
    },
    pixels: (pixels, x, y, width, height) =>
      void out.push(
        `<image ${box(x, y, width, height)} preserveAspectRatio="none" style="image-rendering:pixelated" href="${painted(pixels).toDataURL()}"/>`,
      ),
    within(x, y, width, height, draw) {
      // Two pictures of one page may come to the same name: then it must be the same window.
      const name = `clip${[out.length, x, y, width, height].map(digits).join("-")}`;
      out.push(`<clipPath id="${name}"><rect ${box(x, y, width, height)}/></clipPath><g clip-path="url(#${name})">`);
      draw();
      out.push("</g>");
    },
  };
}

let measuring: CanvasRenderingContext2D | null = null;
const widths = new Map<string, number>();

/** How wide a label is drawn, in pixels. */
export function textWidth(text: string, size = SMALL, bold = false): number {
  const name = `${bold ? "b" : ""}${size} ${text}`;
  let width = widths.get(name);
  if (width === undefined) {
    measuring ??= document.createElement("canvas").getContext("2d");
    if (!measuring) return text.length * size * 0.6;
    measuring.font = `${bold ? "600 " : ""}${size}px ${FACE}`;
    width = measuring.measureText(text).width;
    if (widths.size > 20000) widths.clear();
    widths.set(name, width);
  }
  return width;
}

/** The text cut with … so that it is at most `width` pixels wide. */
export function fitted(text: string, width: number, size = SMALL, bold = false): string {
  if (textWidth(text, size, bold) <= width) return text;
  const letters = [...text];
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("")}…`, size, bold) <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${letters.slice(0, low).join("")}…` : "…";
}
