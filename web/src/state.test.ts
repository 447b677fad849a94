import assert from "node:assert/strict";
import test from "node:test";
import { createStore, fromHash, settled, START, stepsOf, toHash } from "./state";
import type { PageMap, PageTrace, State } from "./types";

function map(site: string, query: string, key: string, more: Partial<PageMap> = {}): PageMap {
  return {
    site,
    head: 0,
    query,
    key,
    kind: "dense",
    step: 0,
    queries: 3,
    keys: 5,
    tensors: {},
    entropy: null,
    thumb: null,
    ...more,
  };
}

function trace(maps: PageMap[]): PageTrace {
  return { name: "", about: {}, axes: {}, maps, signals: {}, outputs: null, tree: null };
}

const TRACE = trace([
  map("encoder", "source", "source", { queries: 5 }),
  map("cross", "target", "source"),
  map("cross", "target", "source", { head: 1 }),
]);

test("the start is an empty address", () => {
  assert.equal(toHash(START, START), "");
});

test("an address brings back what was written to it", () => {
  const state: State = {
    ...START,
    trace: 2,
    view: "heads",
    site: "a & b/é",
    head: 1,
    step: 7,
    key: 0,
    special: false,
    words: true,
    threshold: 0.25,
    theme: "dark",
    other: 1,
    more: { sort: "3", "a.b": 3, on: true, word: "'x" },
  };
  assert.deepEqual(fromHash(`#${toHash(state, START)}`, START), state);
});

test("what hovers is not remembered", () => {
  assert.equal(toHash({ ...START, hover: { step: 1, key: 2 } }, START), "");
});

test("rubbish in the address changes nothing", () => {
  for (const hash of [
    "#",
    "#%",
    "#%E0%A4%A",
    "#step=-1",
    "#step=1e99",
    "#head=x&key=NaN",
    "#theme=pink",
    "#x.__proto__=1",
    "#step=99999999999999",
    "#=&&&=",
    "#\u0000",
  ]) {
    assert.deepEqual(settled(fromHash(hash, START), [TRACE]), settled(START, [TRACE]), hash);
  }
});

test("a state that the trace cannot show becomes the nearest that it can", () => {
  const state = settled({ ...START, trace: 9, site: "nowhere", head: 7, step: 99, key: 99, other: 4, threshold: NaN }, [
    TRACE,
  ]);
  assert.deepEqual(
    [state.trace, state.site, state.head, state.step, state.key, state.other, state.threshold],
    [0, null, null, 2, null, null, START.threshold],
  );
});

test("no traces are no trouble", () => {
  assert.equal(settled({ ...START, trace: 3, step: 4 }, []).step, 0);
});

test("the site is the last that looks across, unless one is chosen", () => {
  assert.deepEqual(stepsOf(TRACE, START), { axis: "target", first: 0, count: 3 });
  assert.deepEqual(stepsOf(TRACE, { ...START, site: "encoder" }), { axis: "source", first: 0, count: 5 });
});

test("steps begin where the map does", () => {
  const later = trace([map("cross", "target", "source", { step: 4 })]);
  assert.equal(settled(START, [later]).step, 4);
});

test("another trace begins at its first step", () => {
  const store = createStore(() => [TRACE, TRACE], { ...START, step: 2, key: 3 });
  store.set({ trace: 1 });
  assert.deepEqual([store.get().step, store.get().key], [0, null]);
  store.set({ more: { a: 1 } });
  store.set({ more: { b: 2 } });
  assert.deepEqual(store.get().more, { a: 1, b: 2 });
});

test("a site that is called like a number comes back by its name", () => {
  for (const site of ["0", "1.5", "true", "'quoted"])
    assert.equal(fromHash(toHash({ ...START, site }, START), START).site, site);
});
