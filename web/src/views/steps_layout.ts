// The layout of Steps in space and time: its columns, the height of its rows, and how far a step has come.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useStill } from "../theme";
import { MOST_ROWS } from "./steps_moment";
import type { Column } from "./steps_words";

const WIDTHS: Record<Column, string> = {
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

/** The grid: the columns there are; under their heads the rows, those left out, room for a long output, equations. */
export function gridOf(columns: Column[], rows: number, height: number): Record<string, string> {
  // The context's equation needs the room of two columns.
  const alone = !columns.includes("s");
  const width = (column: Column) => (alone && column === "c" ? "96px" : WIDTHS[column]);
  return {
    "--columns": `${columns.map((column) => `[${column}] ${width(column)}`).join(" ")} [end]`,
    "--columns-stacked": `${WIDTHS.label} 1fr${columns.includes("e") ? " 1fr" : ""}`,
    "--last": String(rows + 4),
    gridTemplateRows: `auto ${rows ? `repeat(${rows}, ${height}px)` : ""} auto auto`,
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

/** How far the step has come: 1 scores, 2 weights, 3 context, 4 output. One step plays; a jump is there at once. */
export function useStage(step: number): number {
  const still = useStill();
  const [stage, reach] = useState(STAGES);
  const last = useRef({ step, at: -Infinity });
  useLayoutEffect(() => {
    const { step: before, at } = last.current;
    const now = performance.now();
    last.current = { step, at: now };
    if (still || Math.abs(step - before) !== 1 || now - at < HASTE) return reach(STAGES);
    reach(1);
    const timers = [2, 3, 4].map((next) => setTimeout(() => reach(next), (next - 1) * PACE));
    return () => timers.forEach(clearTimeout);
  }, [step, still]);
  return stage;
}

export const LOWEST = 13; // below it a label has no room
const HIGHEST = 28;
const AROUND = 410; // pixels that the rest of the page takes

/** Rows as high as the window has room for: the equations below them should be in sight. */
export function useRowHeight(rows: number): number {
  const [tall, tell] = useState(innerHeight);
  useEffect(() => {
    const told = () => tell(innerHeight);
    addEventListener("resize", told);
    return () => removeEventListener("resize", told);
  }, []);
  if (rows > MOST_ROWS) return 8;
  return Math.max(LOWEST, Math.min(HIGHEST, Math.floor((tall - AROUND) / Math.max(1, rows))));
}
