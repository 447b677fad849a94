// The matrix: hover previews, click locks, arrow keys move. Large ones zoom and pan.
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { redraws } from "./exporting";
import { type Cell, cellAt, type Geometry, geometryOf, reaching, WHOLE, type Zoom, zoomed } from "./geometry";
import { drawAround, drawCells, type Drawing, type Gold, type Marginals, marginalsOf } from "./heatmap_drawing";
import { runsLeft, short } from "./labels";
import { canvasPen, svgPen } from "./pen";
import { type Scale, strongEnd } from "./scale";
import { OnSheet, type Sheet, useColours } from "./theme";
import type { Matrix } from "./types";
import "./heatmap.css";

export type { Cell, Gold };

interface HeatmapProps {
  /** the accessible name: what looks at what */
  name: string;
  matrix: Matrix;
  rowLabels: string[];
  columnLabels: string[];
  hover: Cell | null;
  /** the locked cell; column −1: only its row is chosen */
  locked: Cell | null;
  onHover(cell: Cell | null): void;
  /** null: unlock. From a label, the other side is −1 */
  onPick(cell: Cell | null): void;
  gold?: Gold[];
  /** which weight gets which colour; a number: the weight of the strongest, linearly */
  scale?: Scale | number;
  marginals?: boolean;
  /** both sides are the same axis */
  square?: boolean;
  /** at most so many pixels downwards; as the window allows unless given */
  tallest?: number;
}

export function Heatmap(props: HeatmapProps) {
  const sheet = useContext(OnSheet);
  const { matrix, rowLabels, columnLabels, square = false } = props;
  const marginals = (props.marginals ?? true) && (!sheet || sheet.marginals);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const tallest = useTallest(sheet ? Math.min(sheet.tallest, props.tallest ?? Infinity) : props.tallest);
  const [zoom, setZoom] = useState<Zoom>(WHOLE);
  useEffect(() => setZoom(WHOLE), [matrix.rows, matrix.columns]);
  const sums = useMemo(() => (marginals ? marginalsOf(matrix) : null), [matrix, marginals]);
  const residual = matrix.residual !== null;
  const shown = useMemo(
    () => [rowLabels, columnLabels].map((labels) => labels.map((label) => short(label))),
    [rowLabels, columnLabels],
  );
  const mirrored = useMemo(() => runsLeft(columnLabels), [columnLabels]);
  const g = geometryOf({
    width,
    tallest,
    rowLabels: shown[0]!,
    columnLabels: shown[1]!,
    residual,
    marginals,
    square,
    mirrored,
    titles: { rows: !!sheet?.rows, columns: !!sheet?.columns },
    // A sheet has a width that it is made for, and few cells fill it.
    ...(sheet ? { most: Infinity } : {}),
    zoom,
  });
  usePicture(canvas, g, props, sums, sheet);
  const hand = useHand(canvas, g, props, setZoom);
  if (!matrix.rows || !matrix.columns) return <p class="empty">Nothing was looked at here: the map has no cells.</p>;
  return (
    <div class="heatmap" ref={box}>
      {g.largest > 3.1 && !sheet && <ZoomBar g={g} setZoom={setZoom} />}
      <canvas
        ref={canvas}
        role="application"
        aria-roledescription="matrix"
        aria-label={`${props.name}: ${matrix.rows} rows, ${matrix.columns} columns. Arrow keys move, Enter locks, Escape unlocks.`}
        tabIndex={0}
        data-cells={[g.left, g.top, g.across, g.down].join(" ")}
        style={{
          width: `${g.width}px`,
          height: `${g.height}px`,
          touchAction: g.zoom.scale > 1 ? "none" : "pan-y",
          cursor: hand.cursor,
        }}
        {...hand.events}
      />
    </div>
  );
}

function ZoomBar({ g, setZoom }: { g: Geometry; setZoom(zoom: Zoom): void }) {
  return (
    <div class="zoom" data-export="no">
      <button
        class="quiet"
        aria-label="smaller"
        disabled={g.zoom.scale <= 1}
        onClick={() => setZoom(zoomed(g, 1 / 1.6))}
      >
        −
      </button>
      <button
        class="quiet"
        aria-label="larger"
        disabled={g.zoom.scale >= g.largest}
        onClick={() => setZoom(zoomed(g, 1.6))}
      >
        +
      </button>
      <button class="quiet" disabled={g.zoom.scale <= 1} onClick={() => setZoom(WHOLE)}>
        whole
      </button>
    </div>
  );
}

/** The width there is, as it changes. */
export function useWidth(box: { current: HTMLElement | null }): number {
  const [width, tell] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => tell(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width || 640;
}

const AROUND = 332; // pixels of the page above and below a picture
const TALLEST = 860;

/** The height with which the whole page still fits the window. */
function useTallest(given: number | undefined): number {
  const [room, tell] = useState(window.innerHeight);
  useEffect(() => {
    const measure = () => tell(window.innerHeight);
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return given ?? Math.max(320, Math.min(TALLEST, room - AROUND));
}

function usePicture(
  canvas: { current: HTMLCanvasElement | null },
  g: Geometry,
  props: HeatmapProps,
  marginals: Marginals | null,
  sheet: Sheet | null,
): void {
  const colours = useColours();
  const cells = useRef<{ of: string; matrix: Matrix; canvas: HTMLCanvasElement } | null>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx) return;
    const density = window.devicePixelRatio || 1;
    const { matrix, rowLabels, columnLabels, gold = [] } = props;
    const { hover, locked } = sheet ? { hover: null, locked: null } : props;
    const drawing: Drawing = {
      matrix,
      rowLabels,
      columnLabels,
      gold,
      hover,
      locked,
      colours,
      density,
      marginals,
      strength: strengthOf(props.scale, matrix),
      titles: sheet ?? undefined,
    };
    // The cells are drawn once and kept: a pointer that moves changes only what is around them.
    const scaled = typeof props.scale === "object" ? props.scale.name : props.scale;
    const of = JSON.stringify([g, colours.dark, density, scaled]);
    if (cells.current?.of !== of || cells.current.matrix !== matrix) {
      const kept = document.createElement("canvas");
      const drawn = sized(kept, g, density);
      if (drawn) drawCells(canvasPen(drawn), g, drawing);
      cells.current = { of, matrix, canvas: kept };
    }
    sized(element, g, density);
    ctx.drawImage(cells.current.canvas, 0, 0, g.width, g.height);
    drawAround(canvasPen(ctx), g, drawing);
    redraws.set(element, () => {
      const out: string[] = [];
      drawCells(svgPen(out), g, { ...drawing, shapes: sheet !== null });
      drawAround(svgPen(out), g, { ...drawing, hover: null });
      return out.join("");
    });
  });
}

function strengthOf(scale: Scale | number | undefined, matrix: Matrix): Scale["strength"] {
  if (typeof scale === "object") return scale.strength;
  const end = scale ?? strongEnd(matrix.largest, matrix.columns);
  return (_, weight) => weight / (end || 1);
}

/** The canvas as large as the picture, in the screen's own pixels, and empty. */
function sized(canvas: HTMLCanvasElement, g: Geometry, density: number): CanvasRenderingContext2D | null {
  canvas.width = Math.round(g.width * density);
  canvas.height = Math.round(g.height * density);
  const ctx = canvas.getContext("2d");
  ctx?.setTransform(density, 0, 0, density, 0, 0);
  return ctx;
}

const MOVES: Record<string, [number, number]> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

type Place = { clientX: number; clientY: number };

/** Where on the canvas a pointer is. */
function pointOf(canvas: HTMLCanvasElement | null, event: Place): { x: number; y: number } {
  const box = canvas?.getBoundingClientRect();
  return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
}

/** Control and the wheel make the map larger around the pointer. */
function useWheel(canvas: { current: HTMLCanvasElement | null }, g: Geometry, setZoom: (zoom: Zoom) => void): void {
  const now = useRef(g);
  now.current = g;
  useEffect(() => {
    const element = canvas.current;
    const turn = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { x, y } = pointOf(element, event);
      setZoom(zoomed(now.current, Math.exp(-event.deltaY / 200), x, y));
    };
    // A wheel listener that may prevent the browser's own zoom cannot be passive, and JSX has no word for that.
    element?.addEventListener("wheel", turn, { passive: false });
    return () => element?.removeEventListener("wheel", turn);
  }, []);
}

/** Pointer and keys on the canvas. */
function useHand(
  canvas: { current: HTMLCanvasElement | null },
  g: Geometry,
  props: HeatmapProps,
  setZoom: (zoom: Zoom) => void,
) {
  const press = useRef<{ x: number; y: number; zoom: Zoom; moved: boolean } | null>(null);
  useWheel(canvas, g, setZoom);
  const drags = (event: PointerEvent, x: number, y: number) => {
    const from = press.current;
    if (!from || !event.buttons || g.zoom.scale <= 1) return false;
    if (!from.moved && Math.hypot(x - from.x, y - from.y) > 4) {
      from.moved = true;
      canvas.current?.setPointerCapture(event.pointerId);
    }
    if (from.moved) setZoom({ ...from.zoom, x: from.zoom.x + from.x - x, y: from.zoom.y + from.y - y });
    return from.moved;
  };
  const events = {
    onPointerDown(event: PointerEvent) {
      press.current = { ...pointOf(canvas.current, event), zoom: g.zoom, moved: false };
    },
    onPointerMove(event: PointerEvent) {
      const { x, y } = pointOf(canvas.current, event);
      if (drags(event, x, y)) return;
      const cell = cellAt(g, x, y);
      if (cell?.row !== props.hover?.row || cell?.column !== props.hover?.column) props.onHover(cell);
    },
    onPointerUp(event: PointerEvent) {
      const moved = press.current?.moved;
      press.current = null;
      if (moved) return;
      const { x, y } = pointOf(canvas.current, event);
      const cell = cellAt(g, x, y);
      const same = cell && props.locked && cell.row === props.locked.row && cell.column === props.locked.column;
      if (cell) props.onPick(same ? null : cell);
    },
    onPointerLeave() {
      press.current = null;
      props.onHover(null);
    },
    onKeyDown: (event: KeyboardEvent) => keyed(event, g, props, setZoom),
  };
  return { events, cursor: g.zoom.scale > 1 ? "grab" : "crosshair" };
}

function keyed(event: KeyboardEvent, g: Geometry, props: HeatmapProps, setZoom: (zoom: Zoom) => void): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { matrix, locked, hover } = props;
  const here = { row: Math.max(0, locked?.row ?? hover?.row ?? 0), column: locked?.column ?? -1 };
  const move = MOVES[event.key];
  let next: Cell | null = null;
  const by = move && move[1] * (g.mirrored ? -1 : 1);
  if (move) next = { row: here.row + move[0], column: Math.max(here.column, 0) + (here.column < 0 ? 0 : by!) };
  else if (event.key === "Home") next = { ...here, column: 0 };
  else if (event.key === "End") next = { ...here, column: matrix.columns - 1 };
  else if (event.key === "PageUp" || event.key === "PageDown")
    next = { ...here, row: here.row + (event.key === "PageUp" ? -10 : 10) };
  else if (event.key === "Enter" && hover && hover.row >= 0) next = hover;
  else if (event.key === "Enter") next = { ...here, column: Math.max(0, here.column) };
  else if (event.key === "Escape") props.onPick(null);
  else if (event.key === "+" || event.key === "=") setZoom(zoomed(g, 1.6));
  else if (event.key === "-") setZoom(zoomed(g, 1 / 1.6));
  else if (event.key === "0") setZoom(WHOLE);
  else return;
  event.preventDefault();
  event.stopPropagation();
  if (!next) return;
  const cell = { row: clamp(next.row, matrix.rows), column: Math.min(next.column, matrix.columns - 1) };
  props.onPick(cell);
  setZoom(reaching(g, cell));
}

function clamp(index: number, count: number): number {
  return Math.max(0, Math.min(count - 1, index));
}
