import assert from "node:assert/strict";
import test from "node:test";
import { blocksFrom, loadTrace } from "../data";
import { START } from "../state";
import type { PageAxis, PageMap, PageTrace } from "../types";
import { loadDecode } from "./steps_loading";
import { momentOf } from "./steps_moment";

async function packed(numbers: number[]): Promise<string> {
  const stream = new Blob([Float32Array.from(numbers)]).stream().pipeThrough(new CompressionStream("gzip"));
  return btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
}

const tokens = (labels: string[]): PageAxis => ({ kind: "tokens", labels, parent: null, within: [] });

interface Made {
  about: PageTrace["about"];
  axes: Record<string, PageAxis>;
  /** the axes that each site looks from and at */
  looks: [string, string][];
  axis: string;
  labels: string[][];
  probability: number[];
}

/** The moment of a step: what was likely there and what came out. */
async function at(step: number, { about, axes, looks, axis, labels, probability }: Made, site: string | null = null) {
  const sizes = looks.map(([query, key]) => [axes[query]!.labels.length, axes[key]!.labels.length] as const);
  const maps = looks.map(([query, key], i): PageMap => {
    const [queries, keys] = sizes[i]!;
    const weights = { block: i + 1, dtype: "f32" as const, shape: [queries, keys] };
    const rest = { step: 0, queries, keys, entropy: null, thumb: null };
    return { site: `s${i}`, head: 0, query, key, kind: "dense", tensors: { weights }, ...rest };
  });
  const columns = probability.length / labels.length;
  const shares = { block: 0, dtype: "f32" as const, shape: [labels.length, columns] };
  const outputs = { axis, labels, probability: shares, index: shares };
  const page: PageTrace = { name: "", about, axes, maps, signals: {}, outputs, tree: null };
  const even = sizes.map(([queries, keys]) => Array.from({ length: queries * keys }, () => 1 / keys));
  const trace = loadTrace(page, blocksFrom(await Promise.all([probability, ...even].map(packed))));
  const decode = await loadDecode(trace, { site, head: null });
  return { decode, ...momentOf(decode, { ...START, site, step }, null, []) };
}

const TAGGER: Made = {
  about: { output_kind: "tags", tags: ["O", "B-LOC"] },
  axes: { text: tokens(["She", "Lisbon"]), tag: tokens(["She [O]", "Lisbon [B-LOC]"]) },
  looks: [
    ["text", "text"],
    ["tag", "text"],
  ],
  axis: "tag",
  labels: [
    ["O", "B-LOC"],
    ["B-LOC", "O"],
  ],
  probability: [0.97, 0.03, 0.74, 0.26],
};

test("what a tagger said is found among the likely tags, and cannot be forced", async () => {
  const moment = await at(1, TAGGER);
  assert.equal(moment.written, "B-LOC");
  assert.equal(moment.likely[0]!.label, "B-LOC");
  assert.deepEqual([moment.writes, moment.forced], [false, false]);
});

test("at a layer below, a tagger's words have their own tags, not those of the first", async () => {
  const moment = await at(1, TAGGER, "s0");
  assert.deepEqual([moment.written, moment.likely[0]!.label], ["B-LOC", "B-LOC"]);
});

test("of a ranker's candidates the one that was looked at is marked, wherever it looks from", async () => {
  const candidates = ["it is", "no"];
  const ranked: Made = {
    about: { output_kind: "ranking", output: "it is", score: 0.506, labels: { "it is": 0.506, no: 0.494 } },
    axes: { question: tokens(["is", "it", "?"]), candidate: tokens(["it", "is"]), score: tokens(["0.506"]) },
    looks: [
      ["candidate", "question"],
      ["score", "candidate"],
    ],
    axis: "score",
    labels: [candidates],
    probability: [0.506, 0.494],
  };
  for (const site of ["s0", "s1"]) {
    const moment = await at(0, ranked, site);
    assert.equal(moment.written, "it is");
    assert.deepEqual(
      moment.likely.map((each) => each.label),
      candidates,
    );
    assert.equal(moment.forced, false);
  }
});

test("where an encoder looks nothing comes out, and what writes can be given another beginning", async () => {
  const written: Made = {
    about: { output_kind: "text" },
    axes: { source: tokens(["le", "chat"]), target: tokens(["the", "cat"]) },
    looks: [
      ["source", "source"],
      ["target", "source"],
    ],
    axis: "target",
    labels: [
      ["the", "a"],
      ["cat", "dog"],
    ],
    probability: [0.9, 0.1, 0.8, 0.2],
  };
  const [reading, writing] = [await at(1, written, "s0"), await at(1, written, "s1")];
  assert.deepEqual([reading.decode.reads, reading.likely, reading.written, reading.forced], [true, [], null, false]);
  assert.deepEqual([writing.written, writing.likely[0]!.label, writing.forced], ["cat", "cat", true]);
});

test("a classifier without attention decides, and writes nothing", async () => {
  const plain: Made = {
    about: { output_kind: "label", output: "good", labels: { good: 0.6, bad: 0.4 } },
    axes: { text: tokens(["a", "film"]), label: tokens(["good"]) },
    looks: [],
    axis: "label",
    labels: [["good", "bad"]],
    probability: [0.6, 0.4],
  };
  const moment = await at(0, plain);
  assert.deepEqual(
    [moment.decode.action, moment.written, moment.writes, moment.forced],
    ["decide", "good", false, false],
  );
});
