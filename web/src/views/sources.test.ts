import assert from "node:assert/strict";
import test from "node:test";
import { dense, fromEdges } from "../matrices";
import type { Look } from "../look";
import type { PageAxis, PageMap, PageTrace } from "../types";
import { lookedAt, playedOf, type Sound, spotAt, stretchOf, tickStep, timeOf, writtenAt } from "./audio_drawing";
import { documents } from "./document";
import { wordingOf } from "./document_text";
import { around, fitted, neighboursOf } from "./graph_layout";
import { image, lookedThere } from "./image";
import { patchAt, patchUnder } from "./image_overlay";
import { halfOf, nested } from "./sources";
import { timeline } from "./timeline";
import { placesOf, room, stars, timesOf } from "./timeline_layout";

function axis(kind: PageAxis["kind"], labels: string[], more: Partial<PageAxis> = {}): PageAxis {
  return { kind, labels, parent: null, within: [], ...more };
}

function look(query: string, key: string, axes: Record<string, PageAxis>, rows: number[][]): Look {
  const columns = rows[0]!.length;
  const map: PageMap = {
    site: "s",
    head: null,
    query,
    key,
    kind: "dense",
    step: 0,
    queries: rows.length,
    keys: columns,
    tensors: {},
    entropy: null,
    thumb: null,
  };
  return {
    site: "s",
    head: null,
    heads: [null],
    map,
    query: axes[query]!,
    key: axes[key]!,
    weights: dense(Float32Array.from(rows.flat()), rows.length, columns),
    averaged: 0,
  };
}

function trace(axes: Record<string, PageAxis>, looks: [string, string, number][], about = {}): PageTrace {
  const maps = looks.map(([query, key, queries], i): PageMap => ({
    site: `s${i}`,
    head: null,
    query,
    key,
    kind: "dense",
    step: 0,
    queries,
    keys: 3,
    tensors: {},
    entropy: null,
    thumb: null,
  }));
  return { name: "", about, axes, maps, signals: {}, outputs: null, tree: null };
}

const WORDS = axis("tokens", ["a", "b", "c"], { parent: "sentence", within: [0, 0, 1] });
const SENTENCES = axis("sentences", ["a b", "c"]);
const LABEL = axis("tokens", ["good"]);

test("a word's weight is that of its own sentence's row, or of the row that pools all", () => {
  const axes = { word: WORDS, sentence: SENTENCES, label: LABEL };
  const outer = look("label", "sentence", axes, [[0.25, 0.75]]);
  const own = nested(
    outer,
    look("sentence", "word", axes, [
      [0.5, 0.5, 0],
      [0, 0, 1],
    ]),
    0,
  );
  assert.deepEqual([0, 1, 2].map(own.innerWeight), [0.5, 0.5, 1]);
  assert.deepEqual([0, 1].map(own.outerWeight), [0.25, 0.75]);
  const pooled = nested(outer, look("label", "word", axes, [[0.5, 0.25, 1]]), 0);
  assert.deepEqual([0, 1, 2].map(pooled.innerWeight), [0.5, 0.25, 1]);
});

test("documents are words in sentences and pooled words, not the source of a translation", () => {
  const axes = {
    word: WORDS,
    sentence: SENTENCES,
    label: LABEL,
    text: axis("tokens", ["x", "y", "z"]),
    visit: axis("visits", ["v"]),
    code: axis("tokens", ["x"], { parent: "visit", within: [0] }),
  };
  assert.ok(documents.serves(trace(axes, [["sentence", "word", 2]])));
  assert.ok(documents.serves(trace(axes, [["label", "text", 1]])));
  assert.ok(documents.serves(trace(axes, [["label", "text", 3]], { labels: { good: 1 } })));
  assert.ok(!documents.serves(trace(axes, [["label", "text", 3]])));
  assert.ok(!documents.serves(trace(axes, [["text", "text", 1]])));
  assert.ok(!documents.serves(trace(axes, [["label", "code", 1]])));
  assert.ok(timeline.serves(trace(axes, [["label", "visit", 1]])));
  assert.ok(!image.serves(trace(axes, [["label", "visit", 1]])));
});

test("patches lie in their box of the image, and a place beside them is that of the nearest", () => {
  const labels = ["0", "1", "2", "3", "4", "5"];
  const grid = axis("grid", labels, { width: 3, height: 2, image: "data:image/png;base64,", box: [0.25, 0, 0.75, 1] });
  assert.deepEqual(patchAt(grid, 4, 240, 100), [100, 50, 40, 50]);
  assert.deepEqual([patchUnder(grid, 0.5, 0.9), patchUnder(grid, 0.1, 0.1), patchUnder(grid, 0.99, 0.6)], [4, 0, 5]);
  const bare = axis("grid", labels, { width: 3, height: 2, box: [0.25, 0, 0.75, 1] });
  assert.deepEqual(patchAt(bare, 4, 240, 100), [80, 50, 80, 50], "without an image the patches are all there is");
});

test("who looked at a patch is told by weight, without those who did not", () => {
  const axes = { word: axis("tokens", ["a", "red", "circle", "."]), grid: axis("grid", ["0", "1"]) };
  const seen = look("word", "grid", axes, [
    [0.9, 0.1],
    [0.25, 0.75],
    [0.5, 0.5],
    [1, 0],
  ]);
  assert.deepEqual(
    lookedThere(seen, 1).map(({ label, weight }) => [label, Number(weight.toFixed(2))]),
    [
      ["red", 0.75],
      ["circle", 0.5],
      ["a", 0.1],
    ],
  );
  assert.equal(lookedThere(seen, 0).length, 3);
});

test("a picture opens as a picture, patches without one do not", () => {
  const grid = (more: Partial<PageAxis>) => ({ word: WORDS, grid: axis("grid", ["0", "1", "2"], more) });
  const pictured = trace(grid({ image: "data:image/png;base64," }), [["word", "grid", 3]]);
  assert.ok(image.front!(pictured));
  assert.ok(!image.front!(trace(grid({}), [["word", "grid", 3]])));
});

test("text keeps what stands between its words, whatever letters it has", () => {
  const wording = wordingOf(
    axis("tokens", ["👍", "ok", "!"], {
      text: "👍  ok!",
      spans: [
        [0, 1],
        [3, 5],
        [5, 6],
      ],
    }),
  );
  assert.deepEqual(
    [wording.text(0, 1), wording.between(0, 1), wording.text(1, 3), wording.between(1, 2)],
    ["👍", "  ", "ok!", ""],
  );
  const searched = wordingOf(axis("tokens", ["we", "saw", "<eos>"], { text: "we\nsaw" }));
  assert.deepEqual([searched.between(0, 1), searched.text(1, 2), searched.between(1, 2)], ["\n", "saw", " "]);
  const lost = wordingOf(axis("tokens", ["##x", "y"], { text: "other" }));
  assert.deepEqual([lost.text(0, 1), lost.between(0, 1)], ["##x", " "]);
});

test("half of a row's mass counts the fewest entries that hold it", () => {
  const matrix = dense(Float32Array.from([0.1, 0.4, 0.2, 0.3, 0.25, NaN, 0.25, 0.5]), 2, 4);
  assert.deepEqual([halfOf(matrix, 0), halfOf(matrix, 1)], [2, 1]);
});

test("neighbours are a node's row or its column, the strongest first", () => {
  const graph = fromEdges([0, 0, 1, 2, 1, 2, 0, 0], [0.25, 0.75, 1, 0.5], 3, 4);
  assert.deepEqual(neighboursOf(graph, 0, 0, false), [
    { node: 2, weight: 0.75 },
    { node: 1, weight: 0.25 },
  ]);
  assert.deepEqual(neighboursOf(graph, 0, 0, true), [
    { node: 1, weight: 1 },
    { node: 2, weight: 0.5 },
  ]);
  assert.deepEqual(neighboursOf(graph, 3, 0, false), []);
});

test("neighbours stand in the directions in which they lie", () => {
  const places = [0, 0, 5, 0, 0, 9, -3, 0];
  const ring = around(
    [3, 2, 1].map((node) => ({ node, weight: 1 })),
    0,
    places,
    { x: 10, y: 10 },
  );
  const at = (node: number) => ring.find((each) => each.node === node)!;
  assert.ok(at(1).x > 5 && at(2).y > 5 && at(3).x < -5);
  assert.equal(fitted([0, 0, NaN, 1], 2, 100, 5), null);
  const box = fitted([0, 0, 2, 1], 2, 110, 5)!;
  assert.deepEqual([...box.xy, box.height], [5, 5, 105, 55, 60]);
});

test("a stretch of sound is where a row still looks, and each frame belongs to who looked at it most", () => {
  const weights = dense(Float32Array.from([0, 0.2, 0.6, 0.1, 0, 0, 0, 0.1, 0.8, 0]), 2, 5);
  assert.deepEqual(stretchOf(weights, 0, 2), [1, 4]);
  assert.deepEqual(stretchOf(weights, 0, 4), [4, 5]);
  assert.deepEqual([...writtenAt(weights)], [-1, 0, 0, 1, -1]);
  assert.deepEqual([tickStep(2.1, 1000), tickStep(100, 100), tickStep(0.3, 640)], [0.2, 100, 0.05]);
});

test("marks stand by time, apart, and within the line", () => {
  const times = timesOf(axis("visits", ["a", "b", "c"], { times: ["2020-01-01", "2020-01-02", "2021-01-01"] }))!;
  const x = placesOf([0, 1, 2], times, 10, 110, 20);
  assert.deepEqual([...x], [10, 30, 110]);
  assert.equal(timesOf(axis("visits", ["a", "b"], { times: ["today", "2020"] })), null);
  assert.deepEqual(timesOf(axis("visits", ["a", "b"], { times: ["day 0", "day 0.5"] })), [0, 43_200_000]);
  assert.deepEqual([...placesOf([2, 0, 1], null, 0, 10, 20)], [0, 5, 10]);
  assert.deepEqual(room([0, 30, 110], [40, 40, 40], 1, 130).shown, [false, true, true]);
});

test("stars are only for ratings of five", () => {
  assert.deepEqual([stars(4), stars(0), stars(9), stars(NaN)], ["★★★★☆", "☆☆☆☆☆", "", ""]);
});

test("the rows that looked at a frame are those that gave it a tenth of their largest weight, the greatest first", () => {
  const weights = dense(Float32Array.from([0.9, 0.05, 0.05, 0.2, 0.5, 0.3, 0, 0.1, 0.9]), 3, 3);
  assert.deepEqual(lookedAt(weights, 1), [1, 2]);
  assert.deepEqual(lookedAt(weights, 2), [2, 1]);
  assert.deepEqual(lookedAt(dense(Float32Array.from([NaN, Infinity, 0, 0]), 2, 2), 0), []);
});

test("a letter is played on to where the next one listens, if that is near", () => {
  const rows = [
    [0, 1, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 0, 0, 0, 0],
    [0, 0, 0, 1, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 1, 0],
  ];
  const weights = dense(Float32Array.from(rows.flat()), 4, 9);
  assert.deepEqual(playedOf(weights, 0, 1, 5), [1, 4]);
  assert.deepEqual(playedOf(weights, 0, 1, 1), [1, 3]);
  assert.deepEqual(playedOf(weights, 1, 4, 5), [4, 5], "the next one listened before");
  assert.deepEqual(playedOf(weights, 3, 7, 5), [7, 9]);
});

test("a pointer is over the spectrogram, over a letter's name, or over a cell", () => {
  const plan = { width: 210, height: 100, left: 10, span: 200, names: 20, above: 40, top: 68, row: 12 };
  const weights = dense(new Float32Array(8), 2, 4);
  const sound = { labels: ["a", "b"], weights } as unknown as Sound;
  assert.deepEqual(spotAt(plan, sound, 65, 30), { row: -1, frame: 1 });
  assert.deepEqual(spotAt(plan, sound, 5, 83), { row: 1, frame: -1 });
  assert.deepEqual(spotAt(plan, sound, 209, 69), { row: 0, frame: 3 });
  assert.equal(spotAt(plan, sound, 5, 30), null);
  assert.equal(spotAt(plan, sound, 65, 95), null);
});

test("seconds are those of the recording, also where the frames begin in its midst", () => {
  assert.equal(timeOf(axis("frames", [], { seconds: 0.5, start: 10 }), 3), "11.50 s");
  assert.equal(timeOf(axis("frames", []), 3), "frame 4");
});
