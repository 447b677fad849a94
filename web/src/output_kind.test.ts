import assert from "node:assert/strict";
import test from "node:test";
import { actionOf, canBegin, outputAt, outputKind, purposeOf } from "./output_kind";
import type { About, PageAxis } from "./types";

const tokens = (labels: string[]): PageAxis => ({ kind: "tokens", labels, parent: null, within: [] });
const RANK: About = { output_kind: "ranking", output: "rosa is a nurse", labels: { "rosa is a nurse": 0.506 } };

test("only written text can be given a beginning", () => {
  const kinds = ["text", "continuation", undefined, "tags", "ranking", "label", "order"] as const;
  const begin = kinds.map((output_kind) => canBegin({ output_kind }));
  assert.deepEqual(begin, [true, true, true, false, false, false, false]);
  assert.equal(canBegin({ labels: { good: 1 } }), false, "a trace with the probabilities of labels decides");
});

test("a pointer network writes step by step all the same", () => {
  assert.equal(actionOf({ output_kind: "order" }), "write");
});

test("a trace that declares no output kind is known by what it holds, never by its task's name", () => {
  assert.equal(outputKind({ task: "rank" }), "text");
  assert.equal(outputKind({ tags: ["O"] }), "tags");
  assert.equal(outputKind({ probabilities: { good: 1 } }), "label");
});

test("a tag is what comes out at a word, not the word with it", () => {
  const about: About = { output_kind: "tags", tags: ["", "O", "B-LOC", ""] };
  const axis = tokens(["[CLS]", "She [O]", "Lis [B-LOC]", "bon"]);
  assert.deepEqual(
    [0, 1, 2, 3].map((step) => outputAt(about, axis, step)),
    [null, "O", "B-LOC", null],
  );
  assert.equal(outputAt({ output_kind: "tags" }, axis, 1), null, "of an older trace it is not known");
});

test("a ranker's list is of candidates, so its candidate is found there and not its score", () => {
  assert.equal(outputAt(RANK, tokens(["0.506"]), 0), "rosa is a nurse");
});

test("a look is for what it leads to", () => {
  const of = (about: About, query: string, labels: string[]) => purposeOf({ query }, tokens(labels), about, 0);
  assert.equal(of({}, "target", ["5"]), "to write");
  assert.equal(of({ output_kind: "tags" }, "tag", ["She [O]"]), "to tag");
  assert.equal(of(RANK, "score", ["0.506"]), "to score the candidate");
  assert.equal(of(RANK, "candidate", ["rosa", "is"]), null, "a word of the candidate that looks at the question");
  assert.equal(of({ output_kind: "label", output: "good" }, "label", ["good"]), "to decide on");
  assert.equal(of({ output_kind: "label", output: "good" }, "text", ["a", "film"]), null);
});
