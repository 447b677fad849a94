import assert from "node:assert/strict";
import test from "node:test";
import { dense, sparse } from "../matrices";
import { arriving, choose, leaving } from "./arcs_choice";

const weights = Float32Array.from([0.5, 0.3, 0.2, 0.1, 0.1, 0.8, 0.25, 0.25, 0.5]);

test("of each row the fewest arcs that hold the share are drawn, the strongest first", () => {
  const arcs = choose(dense(weights, 3, 3), 0.6);
  assert.deepEqual([...arcs.from], [0, 2, 3, 5]);
  assert.deepEqual([...arcs.column.slice(0, 3)], [0, 1, 2]);
  assert.ok(Math.abs(arcs.largest - 0.8) < 1e-6);
});

test("a share of one draws all that weighs anything", () => {
  const arcs = choose(dense(Float32Array.from([0.5, 0, 0.5]), 1, 3), 1);
  assert.deepEqual([...arcs.column], [0, 2]);
});

test("a row that kept too little draws what it has and is counted", () => {
  const kept = sparse([0, 2, 4], [4, 1, 0, 2], [0.3, 0.1, 0.7, 0.2], 5, Float32Array.from([0.6, 0.1]));
  const arcs = choose(kept, 0.5);
  assert.deepEqual([...arcs.from], [0, 2, 3]);
  assert.equal(arcs.short, 1);
});

test("weights that are no numbers are counted, not drawn", () => {
  const arcs = choose(dense(Float32Array.from([NaN, 1, Infinity, 0.5, 0.5, 0]), 2, 3), 1);
  assert.deepEqual([...arcs.column], [1, 0, 1]);
  assert.equal(arcs.broken, 1);
});

test("arcs are found from either end", () => {
  const arcs = choose(dense(weights, 3, 3), 1);
  assert.deepEqual(
    leaving(arcs, 1).map((i) => arcs.column[i]),
    [2, 0, 1],
  );
  assert.deepEqual(
    arriving(arcs)(0).map((i) => arcs.row[i]),
    [0, 2, 1],
  );
  assert.deepEqual(leaving(arcs, -1), []);
  assert.deepEqual(arriving(arcs)(-1), []);
});
