import assert from "node:assert/strict";
import test from "node:test";
import { liveOf } from "./live";
import type { LoadedTrace } from "./types";

const page = {
  header: {
    format: "saccade-page",
    version: 1,
    title: "",
    traces: [{ name: "answer", about: {}, axes: {}, maps: [], signals: {}, outputs: null, tree: null }],
  },
  blocks: [],
};

test("an answer is shown where it was asked, wherever the reader went meanwhile", async () => {
  let front = 2;
  const shown: [string, number][] = [];
  globalThis.fetch = async () => {
    front = 0;
    return new Response(JSON.stringify({ predictions: [{ output: "5", page }] }));
  };
  const show = (trace: LoadedTrace, place: number) => void shown.push([trace.name, place]);
  const live = liveOf({ model: "dates", api: "/v1" }, [], () => front, show);
  await live.run("maio");
  assert.deepEqual(shown, [["answer", 2]]);
});
