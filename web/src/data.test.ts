import assert from "node:assert/strict";
import test from "node:test";
import { blocksFrom, loadTrace, readHeader } from "./data";
import type { Matrix, PageMap, PageTrace } from "./types";

async function packed(numbers: ArrayBufferView<ArrayBuffer>): Promise<string> {
  const stream = new Blob([numbers]).stream().pipeThrough(new CompressionStream("gzip"));
  return btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
}

function trace(maps: Partial<PageMap>[]): PageTrace {
  const whole = maps.map((map): PageMap => ({
    site: "s",
    head: 0,
    query: "q",
    key: "k",
    kind: "dense",
    step: 0,
    queries: 2,
    keys: 3,
    tensors: {},
    entropy: null,
    thumb: null,
    ...map,
  }));
  return { name: "", about: {}, axes: {}, maps: whole, signals: {}, outputs: null, tree: null };
}

test("exact weights come back bit for bit", async () => {
  const values = Float32Array.of(0.1, 0.2, 0.7, NaN, 1, 0);
  const page = trace([{ tensors: { weights: { block: 0, dtype: "f32", shape: [2, 3] } } }]);
  const loaded = loadTrace(page, blocksFrom([await packed(values)]));
  const weights = await loaded.weights(page.maps[0]!);
  assert.deepEqual([...weights.row(0), ...weights.row(1)], [...values]);
  assert.ok(weights.exact);
});

test("statistics become a map of the largest weight of each row", async () => {
  const page = trace([
    {
      kind: "statistics",
      tensors: { maximum: { block: 0, dtype: "f32", shape: [2] }, argmax: { block: 1, dtype: "i32", shape: [2] } },
    },
  ]);
  const loaded = loadTrace(
    page,
    blocksFrom([await packed(Float32Array.of(0.75, 0.5)), await packed(Int32Array.of(2, 0))]),
  );
  const weights = await loaded.weights(page.maps[0]!);
  assert.deepEqual([weights.at(0, 2), weights.at(1, 0), weights.residual![0]], [0.75, 0.5, 0.25]);
});

test("vectors of several heads are one head's, or all side by side", async () => {
  const page = trace([]);
  page.signals = {
    c: { axis: "q", step: 0, values: { block: 0, dtype: "f32", shape: [2, 3, 2] } },
    s: { axis: "q", step: 0, values: { block: 1, dtype: "f32", shape: [2, 3] } },
  };
  const blocks = [await packed(Float32Array.from({ length: 12 }, (_, i) => i)), await packed(new Float32Array(6))];
  const loaded = loadTrace(page, blocksFrom(blocks));
  const rows = (found: Matrix | null) => found && [[...found.row(0)], [...found.row(1)]];
  assert.deepEqual(rows(await loaded.signal("c", 1)), [
    [2, 3],
    [8, 9],
  ]);
  assert.deepEqual(rows(await loaded.signal("c")), [
    [0, 1, 2, 3, 4, 5],
    [6, 7, 8, 9, 10, 11],
  ]);
  assert.equal(await loaded.signal("c", 3), null, "a head that is not there");
  assert.equal((await loaded.signal("s", 1))!.columns, 3, "a site without heads of its own");
  assert.equal(await loaded.signal("x"), null);
});

test("missing, damaged and short blocks are told apart", async () => {
  const page = trace([0, 1, 2].map((block) => ({ tensors: { weights: { block, dtype: "f32", shape: [2, 3] } } })));
  const loaded = loadTrace(page, blocksFrom(["AAAA", await packed(Float32Array.of(1))]));
  await assert.rejects(loaded.weights(page.maps[0]!), /damaged/);
  await assert.rejects(loaded.weights(page.maps[1]!), /too short/);
  await assert.rejects(loaded.weights(page.maps[2]!), /missing/);
});

test("a page that cannot be read says why and what to do", () => {
  assert.throws(() => readHeader(""), /no data/);
  assert.throws(() => readHeader("{"), /cut short/);
  assert.throws(() => readHeader('{"format": "x"}'), /not a saccade page/);
  assert.throws(() => readHeader('{"format": "saccade-page", "version": 2}'), /version 2/);
});

test("an axis that nobody named is numbered as far as it is used", () => {
  const page = trace([{ step: 4, queries: 2 }]);
  assert.deepEqual(loadTrace(page, blocksFrom([])).axis("q").labels.length, 6);
});
