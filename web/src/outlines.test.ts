import assert from "node:assert/strict";
import test from "node:test";
import { contours, simpler } from "./outlines";

/** Twice the area inside a closed line; its sign says which way round it goes. */
function doubled(line: number[]): number {
  const count = line.length / 2;
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const j = (i + 1) % count;
    sum += line[2 * i]! * line[2 * j + 1]! - line[2 * j]! * line[2 * i + 1]!;
  }
  return sum;
}

function drawn(rows: string[]): [number[], number, number] {
  return [[...rows.join("")].map((mark) => (mark === "#" ? 255 : 0)), rows[0]!.length, rows.length];
}

test("a block has one line around it, and a hole another the other way round", () => {
  const found = contours(...drawn(["#####", "#####", "##.##", "#####", "#####"]));
  assert.equal(found.length, 2);
  const [around, hole] = found.map(doubled).sort((a, b) => Math.abs(b) - Math.abs(a));
  assert.ok(around! * hole! < 0);
  // The line runs where the ink is half covered: half a pixel is cut off each corner's square.
  assert.ok(Math.abs(Math.abs(around!) / 2 - 24.5) < 0.6, String(around));
});

test("two blocks that only touch at a corner stay two", () => {
  assert.equal(contours(...drawn(["##..", "##..", "..##", "..##"])).length, 2);
});

test("a half covered pixel moves the edge by half of it", () => {
  const edge = (cover: number) => {
    const [line] = contours([255, 255, cover, 255, 255, cover, 255, 255, cover], 3, 3);
    return Math.max(...line!.filter((_, i) => i % 2 === 0));
  };
  assert.ok(edge(255) - edge(0) > 0.9);
  assert.ok(edge(200) > edge(120) && edge(120) > edge(60));
});

test("points on a straight line go, and corners stay", () => {
  const square = [0, 0, 1, 0, 2, 0, 3, 0, 3, 1, 3, 3, 1.5, 3, 0, 3, 0, 2];
  const kept = simpler(square, 0.01);
  assert.deepEqual(kept, [0, 0, 3, 0, 3, 3, 0, 3]);
});
