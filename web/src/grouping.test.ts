import assert from "node:assert/strict";
import test from "node:test";
import { factsOf, grouped, received } from "./grouping";
import { lineOf } from "./labels";
import { dense, fromEdges, mean, rounded, sparse, steps } from "./matrices";
import type { Matrix, PageAxis } from "./types";

function axis(count: number, words?: number[], special?: number[]): PageAxis {
  return {
    kind: "tokens",
    labels: Array.from({ length: count }, (_, i) => `t${i}`),
    parent: null,
    within: [],
    words,
    special,
  };
}

function numbers(matrix: Matrix): number[][] {
  return Array.from({ length: matrix.rows }, (_, r) =>
    [...matrix.row(r)].map((value) => Math.round(value * 1000) / 1000),
  );
}

const WEIGHTS = dense(Float32Array.of(0.2, 0.3, 0.5, 0.4, 0.4, 0.2, 0.1, 0.1, 0.8), 3, 3);

test("weights add up over the keys of a word and are averaged over its queries", () => {
  const line = lineOf(axis(3, [0, 0, 1]), { special: true, words: true });
  assert.deepEqual(numbers(grouped(WEIGHTS, line, line, 0)), [
    [0.65, 0.35],
    [0.2, 0.8],
  ]);
});

test("rows of words sum to what rows of tokens did", () => {
  const line = lineOf(axis(3, [0, 0, 1]), { special: true, words: true });
  const shown = grouped(WEIGHTS, line, line, 0);
  for (let r = 0; r < shown.rows; r++) assert.ok(Math.abs(factsOf(shown, r).sum - 1) < 1e-6);
});

test("hidden tokens take their weight with them", () => {
  const columns = lineOf(axis(3, undefined, [2]), { special: false, words: false });
  const rows = lineOf(axis(3), { special: true, words: false });
  assert.deepEqual(numbers(grouped(WEIGHTS, rows, columns, 0)), [
    [0.2, 0.3],
    [0.4, 0.4],
    [0.1, 0.1],
  ]);
});

test("an untouched map is the map itself", () => {
  const line = lineOf(axis(3), { special: true, words: false });
  assert.equal(grouped(WEIGHTS, line, line, 0), WEIGHTS);
});

test("rows may begin later than their axis", () => {
  const rows = lineOf(axis(5, [0, 0, 1, 2, 2]), { special: true, words: true }, 2, 5);
  const columns = lineOf(axis(3), { special: true, words: false });
  assert.deepEqual(numbers(grouped(WEIGHTS, rows, columns, 2)), [
    [0.2, 0.3, 0.5],
    [0.25, 0.25, 0.5],
  ]);
});

test("a map of few entries is never spread out, and keeps its rest", () => {
  const huge = sparse(steps(2, 2), [0, 99_999, 5, 0], [0.5, 0.25, 0.75, 0], 100_000, Float32Array.of(0.25, 0.25));
  const line = lineOf(axis(2, [0, 0]), { special: true, words: true });
  const columns = lineOf(axis(100_000), { special: true, words: false });
  const shown = grouped(huge, line, columns, 0);
  const found: [number, number][] = [];
  shown.entries(0, (column, value) => found.push([column, value]));
  assert.deepEqual(found, [
    [0, 0.25],
    [99_999, 0.125],
    [5, 0.375],
  ]);
  assert.deepEqual([...shown.residual!], [0.25]);
});

test("fillers of weight 0 at key 0 are no entries, and equal keys add up", () => {
  const matrix = sparse(steps(1, 3), [2, 2, 0], [0.5, 0.25, 0], 3, null);
  assert.deepEqual([matrix.at(0, 2), matrix.at(0, 0)], [0.75, 0]);
  const visited: number[] = [];
  matrix.entries(0, (column) => visited.push(column));
  assert.deepEqual(visited, [2, 2]);
});

test("edges become rows whatever their order", () => {
  const matrix = fromEdges([2, 0, 2, 1, 0, 1], [0.1, 0.2, 0.7], 3, 3);
  assert.deepEqual(numbers(matrix), [
    [0.2, 0, 0],
    [0, 0, 0],
    [0, 0.8, 0],
  ]);
});

test("rounded maps follow the page's formula", () => {
  const matrix = rounded(Uint8Array.of(255, 51), Float32Array.of(0.5), 1, 2);
  assert.deepEqual(numbers(matrix), [[0.5, 0.02]]);
  assert.ok(!matrix.exact);
});

test("heads are averaged, dense or not", () => {
  const one = dense(Float32Array.of(1, 0), 1, 2);
  const two = dense(Float32Array.of(0, 1), 1, 2);
  assert.deepEqual(numbers(mean([one, two])), [[0.5, 0.5]]);
  const three = sparse(steps(1, 1), [1], [0.6], 2, Float32Array.of(0.4));
  assert.deepEqual(numbers(mean([three, three])), [[0, 0.6]]);
  assert.ok(Math.abs(mean([three, three]).residual![0]! - 0.4) < 1e-6);
});

test("what is not a number is counted, not summed", () => {
  const matrix = dense(Float32Array.of(NaN, 0.5, Infinity), 1, 3);
  assert.deepEqual(factsOf(matrix, 0).broken, 2);
  assert.equal(factsOf(matrix, 0).argmax, 1);
  assert.deepEqual([...received(matrix)], [0, 0.5, 0]);
  assert.equal(matrix.largest, 0.5);
});

test("the mean of large graphs keeps all of their edges, so nothing is missing from it", () => {
  const large = fromEdges([0, 2999, 2999, 0], [0.25, 0.75], 3000, 3000);
  const found = mean([large, large]);
  assert.equal(found.partial, false);
  assert.equal(found.residual, null);
  assert.equal(found.at(2999, 0), 0.75);
});
