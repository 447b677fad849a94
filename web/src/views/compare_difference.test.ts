import assert from "node:assert/strict";
import { test } from "node:test";
import { dense } from "../matrices";
import { differenceOf, largestOf, movedShare, plus } from "./compare_difference";

const ONE = dense(Float32Array.from([1, 0, 0, 0.5, 0.5, 0]), 2, 3);
const TWO = dense(Float32Array.from([0, 0, 1, 0.75, 0, 0.25, 1, 0, 0]), 3, 3);

test("the difference is the second less the first, for the rows that both have", () => {
  const between = differenceOf(ONE, TWO, [
    [0, 1],
    [1, 0],
  ])!;
  assert.deepEqual([...between.row(0)], [-0.25, 0, 0.25]);
  assert.deepEqual([...between.row(1)], [-0.5, -0.5, 1]);
  assert.equal(between.largest, 1, "the largest in size, whatever its sign");
});

test("the share that moved is half of what is summed", () => {
  assert.equal(
    movedShare(
      differenceOf(ONE, TWO, [
        [0, 1],
        [1, 0],
      ])!,
    ),
    (0.25 + 1) / 2,
  );
  assert.equal(
    movedShare(
      differenceOf(ONE, ONE, [
        [0, 0],
        [1, 1],
      ])!,
    ),
    0,
  );
});

test("the largest differences come in order, and equal maps have none", () => {
  const between = differenceOf(ONE, TWO, [
    [0, 1],
    [1, 0],
  ])!;
  assert.deepEqual(
    largestOf(between, 2).map((spot) => spot.value),
    [1, -0.5],
  );
  assert.deepEqual(largestOf(differenceOf(ONE, ONE, [[0, 0]])!, 5), []);
});

test("what is no number is not among the largest", () => {
  const broken = dense(Float32Array.from([NaN, 0, 1]), 1, 3);
  assert.deepEqual(
    largestOf(differenceOf(ONE, broken, [[0, 0]])!, 5).map((spot) => spot.key),
    [2],
  );
  assert.equal(plus(0.25, true), "+0.25");
  assert.equal(plus(-0.25, false), "≈−0.25");
});
