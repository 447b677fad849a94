import assert from "node:assert/strict";
import test from "node:test";
import type { LoadedTrace, PageAxis, PageMap } from "../types";
import { distances, habitOf, ordered, strongest } from "./heads_facts";
import { briefly, inOrder, inPlace, moved, placeAt, siteKinds } from "./heads_layout";

function mapOf(site: string, head: number, more: Partial<PageMap> = {}): PageMap {
  const thumb = { rows: 2, columns: 2, at: 0, block: { block: 0, dtype: "u8" as const, shape: [4] } };
  const shape = { query: "text", key: "text", kind: "dense" as const, step: 0, queries: 5, keys: 5 };
  return { site, head, ...shape, tensors: {}, entropy: 0.5, thumb, ...more };
}

function tokens(labels: string[]): PageAxis {
  return { kind: "tokens", labels, parent: null, within: [] };
}

const axes = {
  text: tokens(["a", "b"]),
  target: tokens(["x", "y", "<eos>"]),
  prefix: tokens(["<bos>", "x", "y"]),
};

test("what looks at itself and never across is an encoder, what looks at its past a decoder", () => {
  const maps = [
    mapOf("encoder.0.self", 0),
    mapOf("decoder.0.self", 0, { query: "target", key: "prefix" }),
    mapOf("decoder.0.cross", 0, { query: "target", key: "text" }),
  ];
  assert.deepEqual([...siteKinds({ axes, maps }).values()], ["encoder", "decoder", "cross"]);
});

test("short names keep what tells sites apart", () => {
  const names = ["encoder.0.self", "encoder.11.self"];
  assert.deepEqual([...briefly(names).values()], ["0", "11"]);
  assert.deepEqual(
    [...briefly(["encoder.0.self", "decoder.0.self", "decoder.0.cross"]).values()],
    ["enc self", "dec self", "dec cross"],
  );
  assert.deepEqual([...briefly(["pool"]).values()], ["pool"]);
});

const grid = [0, 1, 2].flatMap((layer) => [0, 1, 2, 3, 4].map((head) => mapOf(`encoder.${layer}`, head)));
const room = { width: 900, tallest: 500, nameWidth: 80 };

test("the wall has a row a site and a column a head, and stays within its width", () => {
  const wall = inPlace(grid, room);
  assert.equal(wall.placed.length, 15);
  assert.equal(new Set(wall.placed.map(({ y }) => y)).size, 3);
  assert.equal(new Set(wall.placed.map(({ x }) => x)).size, 5);
  assert.ok(wall.placed.every(({ x }) => x + wall.size <= 900));
});

test("sites with few heads stand beside each other where the page would be empty", () => {
  const narrow = [0, 1, 2, 3, 4, 5, 6].flatMap((layer) => [0, 1, 2].map((head) => mapOf(`decoder.${layer}`, head)));
  const wall = inPlace(narrow, { ...room, width: 1100 });
  assert.equal(new Set(wall.placed.map(({ y }) => y)).size, 4);
  assert.ok(wall.placed.every(({ x }) => x + wall.size <= 1100));
  assert.equal(new Set(wall.placed.map(({ x, y }) => `${x} ${y}`)).size, 21);
  assert.ok(wall.placed.every(({ line }, i) => i === 0 || line >= wall.placed[i - 1]!.line));
  assert.equal(moved(wall, 2, "ArrowRight"), 3);
  assert.equal(wall.placed[3]!.map.site, "decoder.4");
});

test("where there is no room the heads of a site wrap", () => {
  const wide = Array.from({ length: 12 }, (_, head) => mapOf("encoder.0", head));
  const wall = inPlace(wide, { ...room, width: 360 });
  assert.equal(new Set(wall.placed.map(({ line }) => line)).size, 2);
  assert.ok(wall.size >= 52 && wall.placed.every(({ x }) => x + wall.size <= 360));
});

test("arrow keys move along and across the lines and stop at the edges", () => {
  for (const wall of [inPlace(grid, room), inOrder(grid, { ...room, width: 510 }, () => "")]) {
    assert.equal(moved(wall, 6, "ArrowRight"), 7);
    assert.equal(moved(wall, 6, "ArrowDown"), 11);
    assert.equal(moved(wall, 6, "ArrowUp"), 1);
    assert.equal(moved(wall, 1, "ArrowUp"), 1);
    assert.equal(moved(wall, 14, "ArrowRight"), 14);
    assert.equal(moved(wall, 7, "Home"), 5);
    assert.equal(moved(wall, 7, "End"), 9);
    assert.equal(moved(wall, -1, "ArrowDown"), 0);
    const { x, y } = wall.placed[8]!;
    assert.equal(placeAt(wall, x + 3, y + 3), 8);
  }
});

test("the head unlike the others is the farthest from the mean", () => {
  const maps = [mapOf("s", 0), mapOf("s", 1), mapOf("s", 2)];
  const bytes = [
    [255, 0, 0, 255],
    [255, 0, 0, 255],
    [0, 255, 255, 0],
  ].map((each) => Uint8Array.from(each));
  const far = distances(maps, new Map(maps.map((map, i) => [map, bytes[i]!])));
  assert.ok(Math.abs(far.get(maps[2]!)! - 2 / 3) < 1e-6);
  assert.ok(Math.abs(far.get(maps[0]!)! - 1 / 3) < 1e-6);
  assert.deepEqual(
    ordered(maps, "distance", () => far).map((map) => map.head),
    [2, 0, 1],
  );
});

test("by entropy the narrowest comes first and what has none last", () => {
  const maps = [mapOf("s", 0, { entropy: null }), mapOf("s", 1, { entropy: 2 }), mapOf("s", 2, { entropy: 0 })];
  assert.deepEqual(
    ordered(maps, "entropy", () => new Map()).map((map) => map.head),
    [2, 1, 0],
  );
});

const trace = { axis: () => tokens(["[CLS]", "a", "b", "c", "[SEP]"]) } as unknown as LoadedTrace;

test("a head is said to do what was measured, and nothing else", () => {
  const said = (habits: PageMap["habits"], more: Partial<PageMap> = {}) =>
    habitOf(trace, mapOf("s", 0, { habits, ...more }));
  assert.match(
    said({ before: 0.83, first: 0.1 }),
    /^mostly the token before \(0\.83 of its weight\); entropy 0\.50 nats/,
  );
  assert.match(said({ last: 0.8, special: 0.82 }), /^mostly the last token \(\[SEP\]\)/);
  assert.match(said({ last: 0.55, special: 0.95 }), /^mostly special tokens/);
  assert.match(
    said({ before: 0.2 }, { entropy: Math.log(4) }),
    /^spread; entropy 1\.39 nats, as wide as 4\.0 of 5 positions$/,
  );
  assert.match(said({ before: 0.3, after: 0.2 }), /^no one place; most of all the token before \(0\.30/);
  assert.match(said({ before: 0, after: 0 }, { entropy: 0 }), /^no one place; entropy 0 nats/);
  assert.match(said({}, { entropy: null }), /^its weights are not all numbers$/);
  assert.match(
    said({ before: 0.7 }, { kind: "top", entropy: null }),
    /^mostly the token before \(at least 0\.70 of its weight\)$/,
  );
  assert.equal(said({}, { queries: 0, entropy: null }), "it looks at nothing");
  assert.equal(strongest(mapOf("s", 0)), null);
});
