import assert from "node:assert/strict";
import { test } from "node:test";
import { aligned } from "./aligning";

const pairs = (one: string, other: string) =>
  aligned([...one], [...other])
    .map(([a, b]) => (one[a] ?? "–") + (other[b] ?? "–"))
    .join(" ");

test("what is the same stands together, what differs against what came in its place", () => {
  assert.equal(pairs("2009-05", "2009-06"), "22 00 00 99 -- 00 56");
  assert.equal(pairs("abc", "abc"), "aa bb cc");
  assert.equal(pairs("abcd", "acd"), "aa b– cc dd");
  assert.equal(pairs("acd", "abcd"), "aa –b cc dd");
  assert.equal(pairs("xay", "ua"), "xu aa y–");
  assert.equal(pairs("", "ab"), "–a –b");
  assert.equal(pairs("", ""), "");
});

test("each token is paired once and in order", () => {
  const found = aligned([..."the cat sat on the mat"], [..."a cat on that mat sat"]);
  const side = (i: 0 | 1) => found.map((pair) => pair[i]).filter((place) => place >= 0);
  assert.deepEqual(
    side(0),
    Array.from({ length: 22 }, (_, i) => i),
  );
  assert.deepEqual(
    side(1),
    Array.from({ length: 21 }, (_, i) => i),
  );
});

test("outputs too long for a table are paired by their place", () => {
  const one = Array.from({ length: 3000 }, (_, i) => `a${i}`);
  const found = aligned(one, [...one].reverse().slice(1));
  assert.equal(found.length, 3000);
  assert.deepEqual(found[5], [5, 5]);
});
