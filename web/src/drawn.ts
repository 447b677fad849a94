// A canvas that is drawn by a pen, sharp on every screen, and drawn again as vectors when it leaves the page.
import { useLayoutEffect } from "preact/hooks";
import { redraws } from "./exporting";
import { canvasPen, type Pen, svgPen } from "./pen";

/** `ctx` is null where the picture becomes SVG; `density` are device pixels in one of the page's. */
export type Drawn = (pen: Pen, density: number, ctx: CanvasRenderingContext2D | null) => void;

/** Draws after each change of `depends`; without it, after each render. */
export function useDrawn(
  canvas: { current: HTMLCanvasElement | null },
  width: number,
  height: number,
  draw: Drawn,
  depends?: readonly unknown[],
): void {
  useLayoutEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx) return;
    const density = window.devicePixelRatio || 1;
    element.width = Math.round(width * density);
    element.height = Math.round(height * density);
    ctx.setTransform(density, 0, 0, density, 0, 0);
    draw(canvasPen(ctx), density, ctx);
    redraws.set(element, () => {
      const out: string[] = [];
      draw(svgPen(out), 2, null);
      return out.join("");
    });
  }, depends);
}
