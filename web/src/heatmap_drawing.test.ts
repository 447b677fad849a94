import assert from "node:assert/strict";
import test from "node:test";
import { coloursOf } from "./colours";
import { type Geometry, WHOLE } from "./geometry";
import { drawCells, type Drawing, runs } from "./heatmap_drawing";
import { dense } from "./matrices";
import { svgPen } from "./pen";
import type { PageData } from "./types";

const colours = coloursOf({ scale: { light: "", dark: "" } } as PageData, false);

function drawn(rows: number[][], draw: (...on: Parameters<typeof runs>) => void, mirrored = false, most = 1): string[] {
  const [count, columns] = [rows.length, rows[0]!.length];
  const matrix = dense(Float32Array.from(rows.flat()), count, columns);
  const g = {
    ...{ left: 20, top: 30, across: 10 * columns, down: 10 * count, cellX: 10, cellY: 10, angle: 0, everyRow: 1 },
    ...{ everyColumn: 1, rows: count, columns, mirrored, zoom: WHOLE, largest: 1, residual: null },
    ...{ right: 0, below: 0, width: 0, height: 0 },
  } as Geometry;
  const out: string[] = [];
  const strength = (_: number, weight: number) => weight / most;
  draw(svgPen(out), g, { matrix, colours, strength, density: 1, shapes: true, gold: [] } as unknown as Drawing);
  return out.filter((line) => line.startsWith("<rect") && !line.includes('fill="none"'));
}

test("neighbours of one colour are one shape, and what has the colour of the paper is none", () => {
  const shapes = drawn(
    [
      [0.5, 0.5, 0.5, 0, 1],
      [0, 0.0001, 0, 0, 0],
      [0.2, 0.8, 0.8, 0.2, 0.2],
    ],
    runs,
  );
  assert.equal(shapes.length, 5);
  assert.match(shapes[0]!, /x="20" y="30" width="30" height="10"/);
  assert.match(shapes[1]!, /x="60" y="30" width="10" height="10"/);
  assert.match(shapes[3]!, /x="30" y="50" width="20.4" height="10"/, "it goes on under the one that follows");
});

test("columns that run from the right stand there", () => {
  const shapes = drawn([[1, 1, 0.5, 0]], runs, true);
  assert.equal(shapes.length, 2);
  assert.match(shapes[1]!, /x="40" y="30" width="20"/);
});

test("what is not a number is hatched, and no run goes over it", () => {
  assert.equal(drawn([[0.5, NaN, 0.5]], runs).length, 2);
});

test("a file never holds more shapes than there are runs", () => {
  const even = Array.from({ length: 40 }, () => new Array<number>(60).fill(1 / 60));
  assert.equal(drawn(even, drawCells).length, 40);
});
