// Contributions are grouped by the visit that a code lies in, with their signs.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Matrix, PageAxis, PageTrace } from "../types";
import { columnOf, contributed } from "./timeline_contributions";

const visits = { kind: "visits", labels: ["one", "two"], parent: null, within: [] } as PageAxis;
const codes = { kind: "tokens", labels: ["a", "b", "a"], parent: "visits", within: [0, 1, 1] } as PageAxis;
const numbers = [
  [0.5, 1],
  [-2, 1],
  [1, NaN],
];
const values = { rows: 3, columns: 2, at: (row: number, column: number) => numbers[row]![column]! } as Matrix;

test("codes stand with their visit, and the strongest counts whatever its sign", () => {
  const found = columnOf({ visits, codes, values, risk: null }, 0);
  assert.deepEqual(found.inside, [
    [{ code: 0, value: 0.5 }],
    [
      { code: 1, value: -2 },
      { code: 2, value: 1 },
    ],
  ]);
  assert.deepEqual([found.high, found.low, found.strongest], [1, -2, 1]);
});

test("what is not a number has no bar", () => {
  const found = columnOf({ visits, codes, values, risk: null }, 1);
  assert.deepEqual([found.inside[1]![1]!.value, found.low], [0, 0]);
});

test("they are drawn where the axes say that codes lie in visits, whatever the task", () => {
  const signals = { contributions: { axis: "codes", step: 0, values: {} } };
  const trace = { axes: { visits, codes }, signals } as unknown as PageTrace;
  assert.ok(contributed(trace, "visits"));
  assert.ok(!contributed(trace, "codes"));
  assert.ok(!contributed({ ...trace, signals: {} }, "visits"));
});
