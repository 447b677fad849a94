// The layout of Steps in space and time: its columns, the height of its rows, and how far a step has come.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useStill } from "../theme";
import { MOST_ROWS } from "./steps_moment";
import type { Column } from "./steps_words";

/** In their order, from left to right. */
const WIDTHS: Record<Column, string> = {
  q: "92px",
  label: "minmax(52px, max-content)",
  h: "minmax(60px, 0.6fr)",
  e: "minmax(96px, 1.2fr)",
  a: "minmax(96px, 1.2fr)",
  r: "minmax(72px, 1fr)",
  c: "62px",
  b: "84px",
  s: "62px",
  p: "minmax(170px, 1.2fr)",
};

/** Narrower than this, what stands beside the rows stands below them. */
export const NARROW = "(max-width: 920px)";
/** The grid's row of the first position: above it are the heads, and where columns are stacked what the step begins with. */
export const FIRST_ROW = 3;

/** The grid: the columns there are; under their heads the rows, those left out, room for a long output, what goes on, equations. */
export function gridOf(columns: Column[], rows: number, height: number): Record<string, string> {
  // The context's equation needs the room of two columns.
  const alone = !columns.includes("s");
  const width = (column: Column) => (alone && column === "c" ? "96px" : WIDTHS[column]);
  // Lines of columns that are not there lie where the next one begins: what spans columns need not know which there are.
  let lines = "";
  let names = "";
  for (const column of Object.keys(WIDTHS) as Column[]) {
    names += `${column} `;
    if (!columns.includes(column)) continue;
    lines += `[${names}] ${width(column)} `;
    names = "";
  }
  return {
    "--columns": `${lines}[end]`,
    "--columns-stacked": `${WIDTHS.label} 1fr${columns.includes("e") ? " 1fr" : ""}`,
    "--next": String(rows + FIRST_ROW + 2),
    "--last": String(rows + FIRST_ROW + 3),
    "--row": `${height}px`,
    gridTemplateRows: `auto auto ${rows ? `repeat(${rows}, ${height}px)` : ""} auto auto`,
  };
}

export const TALLEST = 260;
const BELOW = 44; // pixels for what is said under a vector

/** How tall a vector is beside rows of this height together. */
export function tallOf(rows: number): number {
  return Math.max(40, Math.min(rows - BELOW, TALLEST));
}

const STAGES = 4; // e, α, c, p
const PACE = 250; // milliseconds each
const HASTE = 300; // steps that follow one another faster are scrubbing

/**
 * How far the step has come: 1 scores, 2 weights, 3 context, 4 output. One step plays, `speed` times as fast as usual; a jump is
 * there at once.
 */
export function useStage(step: number, speed: number): number {
  const still = useStill();
  const [stage, reach] = useState(STAGES);
  const last = useRef({ step, at: -Infinity });
  useLayoutEffect(() => {
    const { step: before, at } = last.current;
    const now = performance.now();
    last.current = { step, at: now };
    if (still || Math.abs(step - before) !== 1 || now - at < HASTE) return reach(STAGES);
    reach(1);
    const timers = [2, 3, 4].map((next) => setTimeout(() => reach(next), ((next - 1) * PACE) / speed));
    return () => timers.forEach(clearTimeout);
  }, [step, still]);
  return stage;
}

export const LOWEST = 11; // below it a label has no room
const HIGHEST = 28;
const STACKED = 18; // where everything stands below everything else, one scrolls anyway
const AROUND = 410; // pixels that the rest of the page takes, before it is measured

/** Rows as high as the window has room for: equations and caption should be in sight, above the footer. */
export function useRowHeight(rows: number, grid: { current: HTMLElement | null }, stacked: boolean): number {
  const [room, tell] = useState({ tall: innerHeight, around: AROUND, measured: false });
  const fitting = Math.floor((2 * (room.tall - room.around)) / Math.max(1, rows)) / 2;
  const height = rows > MOST_ROWS ? 8 : stacked ? STACKED : Math.max(LOWEST, Math.min(HIGHEST, fitting));
  useLayoutEffect(() => {
    const figure = grid.current?.closest("figure");
    const footer = document.querySelector<HTMLElement>(".footer")?.offsetHeight ?? 0;
    if (!figure) return;
    const around = Math.ceil(figure.getBoundingClientRect().bottom + scrollY - rows * height + footer + BREATH);
    // A caption that is shorter at one step must not make the rows of that step higher.
    if (!room.measured || around > room.around) tell({ ...room, around, measured: true });
  });
  useEffect(() => {
    const told = () => tell({ tall: innerHeight, around: AROUND, measured: false });
    addEventListener("resize", told);
    return () => removeEventListener("resize", told);
  }, []);
  return height;
}

const BREATH = 16; // pixels between the caption and the footer
