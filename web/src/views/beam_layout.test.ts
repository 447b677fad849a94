import assert from "node:assert/strict";
import { test } from "node:test";
import type { PageAxis, PageTree } from "../types";
import { layoutOf, neighbour, ownLogProb, pathTo, textOf } from "./beam_layout";

// 0 a ─ 2 c ─ 4 e ─ 6 g (chosen);  0 ─ 3 d ─ 5 f;  1 b from the start;  4 ─ 7 h
const TREE: PageTree = {
  labels: ["a", "b", "c", "d", "e", "f", "g", "h"],
  parent: [-1, -1, 0, 0, 2, 3, 4, 4],
  step: [0, 0, 1, 1, 2, 2, 3, 3],
  log_prob: [-0.1, -2, -0.3, -1.5, -0.4, -1.9, -0.5, -3],
  ended: [false, false, false, false, false, false, true, false],
  chosen: [true, false, true, false, true, false, true, false],
};

function tokens(labels: string[], text: string): PageAxis {
  return { kind: "tokens", labels, parent: null, within: [], text };
}

test("the chosen path is one straight line at the top", () => {
  const { row } = layoutOf(TREE);
  assert.deepEqual(
    [0, 2, 4, 6].map((node) => row[node]),
    [0, 0, 0, 0],
  );
});

test("branches that leave later hang higher, and no two nodes share a place", () => {
  const { row, rows, columns } = layoutOf(TREE);
  assert.equal(row[7], 1);
  assert.equal(row[3], row[5], "a branch keeps its row");
  const places = TREE.labels.map((_, node) => `${TREE.step[node]} ${row[node]}`);
  assert.equal(new Set(places).size, places.length);
  assert.equal(columns, 4);
  assert.equal(rows, Math.max(...row) + 1);
});

test("a random tree never puts two nodes in one place", () => {
  let seed = 7;
  const chance = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const tree: PageTree = { labels: [], parent: [], step: [], log_prob: [], ended: [], chosen: [] };
  let last: number[] = [-1];
  for (let step = 0; step < 30; step++) {
    const next: number[] = [];
    for (let place = 0; place < 6; place++) {
      next.push(tree.labels.length);
      tree.labels.push("x");
      tree.parent.push(last[Math.floor(chance() * last.length)]!);
      tree.step.push(step);
      tree.log_prob.push(-chance());
      tree.ended.push(false);
      tree.chosen.push(false);
    }
    last = next;
  }
  const { row } = layoutOf(tree);
  assert.equal(new Set(tree.step.map((step, node) => `${step} ${row[node]}`)).size, 180);
});

test("a tree of nothing, and one whose parents are rubbish, have a place for every node", () => {
  const none: PageTree = { labels: [], parent: [], step: [], log_prob: [], ended: [], chosen: [] };
  assert.equal(layoutOf(none).columns, 0);
  const odd: PageTree = {
    labels: ["a", "b"],
    parent: [1, 9],
    step: [0, 0],
    log_prob: [null, NaN],
    ended: [true, true],
    chosen: [false, false],
  };
  assert.deepEqual([...layoutOf(odd).row].sort(), [0, 1]);
});

test("arrow keys lead to the parent, the likeliest child and the next branch of the step", () => {
  const layout = layoutOf(TREE);
  assert.equal(neighbour(TREE, layout, 4, "ArrowLeft"), 2);
  assert.equal(neighbour(TREE, layout, 0, "ArrowLeft"), 0);
  assert.equal(neighbour(TREE, layout, 0, "ArrowRight"), 2);
  assert.equal(neighbour(TREE, layout, 6, "ArrowDown"), 7);
  assert.equal(neighbour(TREE, layout, 7, "ArrowUp"), 6);
  assert.equal(neighbour(TREE, layout, 7, "ArrowDown"), 7);
});

test("a node's own log-probability is what its step added", () => {
  assert.ok(Math.abs(ownLogProb(TREE, 3) - -1.4) < 1e-9);
  assert.ok(Math.abs(ownLogProb(TREE, 1) - -2) < 1e-9);
  assert.deepEqual(pathTo(TREE, 7), [0, 2, 4, 7]);
});

test("tokens are put together as their axis puts its own together", () => {
  assert.equal(textOf(["2", "0", "<eos>"], tokens(["1", "9", "<eos>"], "19")), "20");
  assert.equal(textOf(["the", "cat"], tokens(["a", "dog", "<eos>"], "a dog")), "the cat");
  assert.equal(textOf(["un", "##able", "to"], tokens(["x", "##y"], "xy z")), "unable to");
  assert.equal(textOf(["wei@@", "ter", "geh@@"], tokens(["a@@", "b", "c"], "ab c")), "weiter geh");
  assert.equal(textOf(["▁the", "▁c", "at"], tokens(["▁a"], "a")), "the cat");
  assert.equal(textOf(["0.05", "0.25"], tokens(["0.05", "0.33"], "[6, 5]")), "0.05 0.25", "what a pointer chose");
});
