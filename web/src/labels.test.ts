import assert from "node:assert/strict";
import test from "node:test";
import { amount, equals, hasWords, isSpecial, lineOf, number, short, visible, wordAt } from "./labels";
import type { PageAxis } from "./types";

function tokens(labels: string[], more: Partial<PageAxis> = {}): PageAxis {
  return { kind: "tokens", labels, parent: null, within: [], ...more };
}

test("nothing invisible is left in a label", () => {
  assert.deepEqual(["", " ", " a ", "\n", "\u202e", "\u0301", "\u00a0"].map(visible), [
    "∅",
    "␣",
    "␣a␣",
    "␊",
    "U+202E",
    "◌\u0301",
    "␣",
  ]);
});

test("joiners stay inside an emoji family and are written out alone", () => {
  assert.equal(visible("👨\u200d👩\u200d👧"), "👨\u200d👩\u200d👧");
  assert.equal(visible("\u200d"), "U+200D");
});

test("a long label is cut at whole characters and says so", () => {
  assert.equal(short("x".repeat(5000), 5), "xxxx…");
  assert.equal(short("👍👍👍", 2), "👍…");
  assert.equal(short("abc", 3), "abc");
});

test("markers are those the axis names, else what looks like one", () => {
  assert.ok(isSpecial(tokens(["a", "b"], { special: [1] }), 1));
  assert.ok(!isSpecial(tokens(["<eos>", "b"], { special: [1] }), 0));
  assert.ok(isSpecial(tokens(["<eos>"]), 0));
  assert.ok(!isSpecial(tokens(["<a b>"]), 0));
});

test("hidden markers leave a line, and positions still know their group", () => {
  const line = lineOf(tokens(["<s>", "a", "b", "</s>"], { special: [0, 3] }), { special: false, words: false });
  assert.deepEqual(line.labels, ["a", "b"]);
  assert.deepEqual([...line.group], [-1, 0, 1, -1]);
  assert.ok(!line.plain);
});

test("a line of markers alone shows them: hiding all would leave nothing", () => {
  assert.deepEqual(lineOf(tokens(["<s>"]), { special: false, words: false }).labels, ["<s>"]);
});

test("subwords become words, named by the text they stand in", () => {
  const axis = tokens(["un", "##do", "it"], {
    words: [0, 0, 1],
    text: "🙂undo it",
    spans: [
      [1, 3],
      [3, 5],
      [6, 8],
    ],
  });
  assert.ok(hasWords(axis));
  assert.deepEqual(lineOf(axis, { special: true, words: true }).labels, ["undo", "it"]);
  assert.deepEqual(lineOf(tokens(["un", "##do"], { words: [0, 0] }), { special: true, words: true }).labels, ["undo"]);
});

test("a part of an axis keeps its positions", () => {
  const line = lineOf(tokens(["a", "b", "c"]), { special: true, words: false }, 1, 3);
  assert.deepEqual([...line.from], [1, 2]);
  assert.ok(line.plain);
});

test("characters belong to the run of letters or digits around them", () => {
  const axis = tokens([..."de maio 05"]);
  assert.deepEqual(wordAt(axis, 5), { text: "maio", from: 3, to: 7 });
  assert.deepEqual(wordAt(axis, 9), { text: "05", from: 8, to: 10 });
  assert.deepEqual(wordAt(axis, 2), { text: " ", from: 2, to: 3 });
});

test("a letter between words is a word of its own", () => {
  assert.equal(wordAt(tokens(["am", "I", "a", "cat"]), 1).text, "I");
});

test("numbers are short, and say when they are rounded or none", () => {
  assert.deepEqual(
    [0.934, 0, 0.004, 3.2e-7, -3.2e-7, -1.5, NaN, Infinity, 1234.4].map((value) => number(value)),
    ["0.93", "0", "0.004", "<\u00a00.001", ">\u00a0−0.001", "−1.50", "–", "∞", "1\u202f234"],
  );
  assert.equal(number(0.0009, false, 3), "<\u00a00.001");
  assert.deepEqual(
    [0.5, 4e-7].map((value) => equals(number(value))),
    [" = ", " "],
  );
  assert.equal(number(0.5, false), "≈0.50");
});

test("amounts have two or three digits and a unit", () => {
  assert.deepEqual([999, 9999, 272703, 6_000_000].map(amount), ["999", "10\u202fK", "273\u202fK", "6\u202fM"]);
});
