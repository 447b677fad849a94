import assert from "node:assert/strict";
import { test } from "node:test";
import { chartOf, type Curve, spread } from "./truth_chart";

const curve = (x: number[], y: number[]): Curve => ({ name: "most", x_label: "hidden", y_label: "p", x, y });

test("names keep a line's distance and stay where they can", () => {
  assert.deepEqual(spread([100, 40], 0, 200), [100, 40]);
  const [one, other, third] = spread([50, 50, 52], 0, 200) as [number, number, number];
  assert.ok(other - one >= 18 && third - other >= 18);
  const low = spread([195, 198, 199], 0, 200);
  assert.ok(Math.max(...low) <= 200 && Math.min(...low) <= 164);
});

test("what is no number leaves a gap in its curve", () => {
  const { paths } = chartOf([curve([0, 1, 2, 3], [1, NaN, 0.5, 0.25])], 400, 80);
  assert.equal(paths[0]!.match(/M/g)!.length, 2);
  assert.ok(!paths[0]!.includes("NaN"));
});

test("probabilities are drawn from 0 to 1, other figures over their own range", () => {
  const shares = chartOf([curve([0, 1], [0.4, 0.6])], 400, 80);
  assert.deepEqual([shares.y(0), shares.y(1)], [shares.bottom, shares.top]);
  const others = chartOf([curve([0, 1], [-3, 7])], 400, 80);
  assert.deepEqual([others.y(-3), others.y(7)], [others.bottom, others.top]);
});

test("a curve of nothing is no trouble", () => {
  assert.deepEqual(chartOf([curve([], [])], 0, 80).paths, [""]);
});
