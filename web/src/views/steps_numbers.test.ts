import assert from "node:assert/strict";
import test from "node:test";
import { dense } from "../matrices";
import { bandsOf } from "./steps_flow";
import { heaviest, isSoftmax, isSum, shownKeys, softmax, weightedSum } from "./steps_numbers";

test("softmax survives large scores and gives what cannot be seen nothing", () => {
  const shares = softmax([1000, 1001, -Infinity])!;
  assert.ok(Math.abs(shares[0]! - 1 / (1 + Math.E)) < 1e-12);
  assert.equal(shares[2], 0);
});

test("scores that are no numbers have no softmax", () => {
  for (const scores of [[], [-Infinity, -Infinity], [NaN, 1], [Infinity, 1]]) assert.equal(softmax(scores), null);
});

test("weights are called a softmax only where they are one", () => {
  const scores = [0.5, 2, -1];
  const weights = softmax(scores)!;
  assert.ok(isSoftmax(scores, weights));
  assert.ok(
    !isSoftmax(
      scores,
      weights.map((weight) => weight * 0.9),
    ),
    "a gain",
  );
  assert.ok(!isSoftmax(scores, [0, 1, 0]), "an edit, a hard choice");
  assert.ok(!isSoftmax(scores, [0.5, 0.5]), "another length");
  assert.ok(!isSoftmax(scores, [NaN, NaN, NaN]));
});

test("rounded weights may be off by their rounding, exact ones may not", () => {
  const weights = softmax([0, 1, 2])!.map((weight, i) => weight + (i ? 0.004 : -0.008));
  assert.ok(isSoftmax([0, 1, 2], weights, false));
  assert.ok(!isSoftmax([0, 1, 2], weights, true));
});

test("a context is a weighted sum of the states only where it is", () => {
  const states = dense(Float32Array.of(1, 0, 0, 2, 4, 4), 3, 2);
  const sum = weightedSum([0.5, 0.25, 0.25], states);
  assert.deepEqual([...sum], [1.5, 1.5]);
  assert.ok(isSum(sum, [1.5, 1.5]));
  assert.ok(!isSum(sum, [1.5, 1.6]));
  assert.ok(!isSum(sum, [1.5]));
  assert.ok(!isSum(sum, [1.5, NaN]));
});

test("a few positions are all shown, of many those that weigh something, in their order", () => {
  assert.deepEqual(shownKeys([0, 1, 0], null, 60), { keys: [0, 1, 2], others: null });
  const many = Array.from({ length: 100 }, (_, i) => (i === 70 ? 0.6 : i === 7 ? 0.3 : 0.1 / 98));
  const { keys, others } = shownKeys(many, 42, 60);
  assert.deepEqual(keys, [7, 42, 70]);
  assert.equal(others!.count, 97);
  assert.ok(Math.abs(others!.mass - 0.1) < 0.002);
});

test("a flat row of many shows as many as fit, and what was not kept is told", () => {
  const { keys, others } = shownKeys(new Array(100).fill(0), null, 60, 0.25);
  assert.equal(keys.length, 60);
  assert.equal(others!.mass, 0.25);
});

test("nothing is heaviest where nothing weighs anything", () => {
  assert.equal(heaviest([0, 0]), -1);
  assert.equal(heaviest([NaN, 0.2, 0.7]), 2);
  assert.equal(heaviest([]), -1);
});

test("ribbons are as wide as their weights, and those of nothing are not drawn", () => {
  const bands = bandsOf([0.75, 0, NaN, 0.25], 10, 100);
  assert.deepEqual(
    bands.map(({ key, share }) => [key, share]),
    [
      [0, 0.75],
      [3, 0.25],
    ],
  );
});
