import assert from "node:assert/strict";
import test from "node:test";
import { canBegin, deedOf, outputAt, purposeOf } from "./deeds";
import type { About, PageAxis } from "./types";

const tokens = (labels: string[]): PageAxis => ({ kind: "tokens", labels, parent: null, within: [] });
const RANK: About = { task: "rank", output: "rosa is a nurse", labels: { "rosa is a nurse": 0.506 } };

test("only what is written can be given a beginning", () => {
  const tasks = ["translate", "language", undefined, "label", "rank", "classify", "point"];
  const begin = tasks.map((task) => canBegin({ task }));
  assert.deepEqual(begin, [true, true, true, false, false, false, false]);
  assert.equal(canBegin({ labels: { good: 1 } }), false, "who gives labels their probabilities decides");
});

test("a pointer network writes step by step all the same", () => {
  assert.equal(deedOf({ task: "point" }), "write");
});

test("a tag is what comes out at a word, not the word with it", () => {
  const about: About = { task: "label", tags: ["", "O", "B-LOC", ""] };
  const axis = tokens(["[CLS]", "She [O]", "Lis [B-LOC]", "bon"]);
  assert.deepEqual(
    [0, 1, 2, 3].map((step) => outputAt(about, axis, step)),
    [null, "O", "B-LOC", null],
  );
  assert.equal(outputAt({ task: "label" }, axis, 1), null, "of an older trace it is not known");
});

test("a ranker's list is of candidates, so its candidate is found there and not its score", () => {
  assert.equal(outputAt(RANK, tokens(["0.506"]), 0), "rosa is a nurse");
});

test("a look is for what it leads to", () => {
  const of = (about: About, query: string, labels: string[]) => purposeOf({ query }, tokens(labels), about);
  assert.equal(of({}, "target", ["5"]), "to write");
  assert.equal(of({ task: "label" }, "tag", ["She [O]"]), "to tag");
  assert.equal(of(RANK, "score", ["0.506"]), "to score the candidate");
  assert.equal(of(RANK, "candidate", ["rosa", "is"]), null, "a word of the candidate that looks at the question");
  assert.equal(of({ task: "classify", output: "good" }, "label", ["good"]), "to decide on");
  assert.equal(of({ task: "classify", output: "good" }, "text", ["a", "film"]), null);
});
