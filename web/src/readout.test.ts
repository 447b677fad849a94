import assert from "node:assert/strict";
import test from "node:test";
import { dense } from "./matrices";
import { inWords, moment, plainText, type Seen } from "./readout";
import type { PageAxis, PageMap } from "./types";

function look(
  written: string[],
  read: string[],
  weights: number[],
  more: Partial<PageMap> = {},
  words?: number[],
): Seen {
  const axis = (labels: string[]): PageAxis => ({ kind: "tokens", labels, parent: null, within: [], words });
  const map: PageMap = {
    site: "s",
    head: 0,
    query: "target",
    key: "source",
    kind: "dense",
    step: 0,
    queries: written.length,
    keys: read.length,
    tensors: {},
    entropy: null,
    thumb: null,
    ...more,
  };
  return {
    map,
    query: axis(written),
    key: axis(read),
    weights: dense(Float32Array.from(weights), weights.length / read.length, read.length),
  };
}

test("the moment says where it looked to write what", () => {
  const seen = look(["5"], [..."de maio"], [0, 0, 0, 0.5, 0.4, 0.1, 0]);
  assert.equal(plainText(moment(seen, {}, 0, null)), "It looked at maio (1.00) to write 5.");
  assert.equal(plainText(moment(seen, {}, 0, 4)), "It gave a (in maio) a weight of 0.40 to write 5.");
});

test("a class is decided on, not written", () => {
  const seen = look(["good"], ["a", "film"], [0.1, 0.9]);
  assert.equal(
    plainText(moment(seen, { output: "good", probabilities: { good: 1 } }, 0, null)),
    "It looked at film (0.90) to decide on good.",
  );
});

test("a candidate is scored and a word tagged, and neither is written", () => {
  const ranked = { output_kind: "ranking" as const, output: "it is", labels: { "it is": 0.506 } };
  assert.equal(
    plainText(moment(look(["0.506"], ["it", "is"], [0.4, 0.6], { query: "score" }), ranked, 0, null)),
    "It looked at is (0.60) to score the candidate 0.506.",
  );
  assert.equal(
    plainText(moment(look(["rosa", "is"], ["who", "?"], [0.6, 0.4, 1, 0], { query: "candidate" }), ranked, 0, null)),
    "For rosa it looked at who (0.60).",
  );
  assert.equal(
    plainText(moment(look(["She [O]"], ["She"], [1], { query: "tag" }), { output_kind: "tags" }, 0, null)),
    "It looked at She (1.00) to tag She [O].",
  );
});

test("a word among its neighbours looks from its place", () => {
  const seen = look(["it", "ran"], ["it", "ran"], [0.6, 0.4, 0.7, 0.3], { key: "target" });
  assert.equal(plainText(moment(seen, {}, 1, null)), "At ran it looked at it (0.70).");
});

test("weights that are no numbers are said to be none", () => {
  assert.equal(
    plainText(moment(look(["x"], ["le", "mai"], [NaN, NaN]), {}, 0, null)),
    "It looked at nothing that is a number to write x.",
  );
  assert.equal(
    plainText(moment(look(["x"], ["le", "mai"], [NaN, 1]), {}, 0, 0)),
    "It gave le a weight that is not a number to write x.",
  );
});

test("a step outside the map has nothing to say", () => {
  assert.deepEqual(moment(look(["x"], ["a"], [1], { step: 3 }), {}, 0, null), []);
});

test("over words the sentence says what the grouped picture shows", () => {
  const { seen } = inWords(look(["un", "do"], ["un", "do"], [0.5, 0.5, 0.5, 0.5], { key: "target" }, [0, 0]));
  assert.equal(plainText(moment(seen, {}, 0, 0)), "At undo it gave undo a weight of 1.00.");
});
