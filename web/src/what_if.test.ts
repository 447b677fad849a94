import assert from "node:assert/strict";
import test from "node:test";
import { outputEquation, scoreEquation, stateEquation, weightEquation } from "./equations";
import { flowOf } from "./flow";
import { plainText } from "./readout";
import type { LoadedTrace, PageAxis } from "./types";
import {
  differing,
  dragged,
  evenRow,
  maskKeys,
  pieces,
  prefixOf,
  saidOf,
  setRow,
  touches,
  withChange,
} from "./what_if";

const PLACE = { site: "decoder.attention", head: 0, step: 6 };

function tokens(labels: string[], more: Partial<PageAxis> = {}): PageAxis {
  return { kind: "tokens", labels, parent: null, within: [], ...more };
}

function near(found: number[], expected: number[]): void {
  assert.equal(found.length, expected.length);
  found.forEach((value, i) => assert.ok(Math.abs(value - expected[i]!) < 1e-9, `${found} is not ${expected}`));
}

test("others make room in the proportion they had", () => {
  near(dragged([0.5, 0.3, 0.2], 0, 0.8, true), [0.8, 0.12, 0.08]);
  near(dragged([0.5, 0.3, 0.2], 0, 0, true), [0, 0.6, 0.4]);
});

test("without making room only the dragged weight changes", () => {
  near(dragged([0.5, 0.3, 0.2], 1, 0.9, false), [0.5, 0.9, 0.2]);
});

test("where nobody else weighed anything they share alike", () => {
  near(dragged([1, 0, 0], 0, 0.4, true), [0.4, 0.3, 0.3]);
  near(dragged([1], 0, 0.4, true), [0.4]);
});

test("a drag ends at 0 and at 1, and what was no number becomes nothing", () => {
  near(dragged([0.5, NaN, 0.5], 0, 1.7, true), [1, 0, 0]);
  near(dragged([0.5, -1, 0.5], 0, -3, false), [0, 0, 0.5]);
});

test("edits are written as the model reads them", () => {
  assert.deepEqual(setRow(PLACE, [0.25, 0.75], 1).edit, { edit: "set", ...PLACE, row: [0.25, 0.75] });
  assert.deepEqual(maskKeys(PLACE, [3], false).edit, { edit: "mask", ...PLACE, keys: [3] });
  assert.deepEqual(maskKeys({ ...PLACE, head: null }, [3], true).edit, {
    edit: "mask",
    site: PLACE.site,
    head: null,
    step: null,
    keys: [3],
  });
  assert.deepEqual(evenRow(PLACE, false).edit, { edit: "even", ...PLACE });
  assert.deepEqual(evenRow(PLACE, true).edit, { edit: "even", ...PLACE, step: null });
});

test("a row has one state, and rows of other steps keep theirs", () => {
  const first = setRow(PLACE, [1, 0], 0);
  const other = setRow({ ...PLACE, step: 7 }, [1, 0], 0);
  const again = setRow(PLACE, [0.5, 0.5], 1);
  assert.deepEqual(withChange([first, other], again), [other, again]);
  const even = evenRow(PLACE, false);
  assert.deepEqual(withChange([first, other], even), [other, even]);
  assert.deepEqual(withChange([even], first), [first]);
});

test("even at every step takes the place of rows that were set, and leaves what is hidden hidden", () => {
  const [set, mask] = [setRow(PLACE, [1, 0], 0), maskKeys(PLACE, [1], false)];
  const everywhere = evenRow(PLACE, true);
  const elsewhere = setRow({ ...PLACE, site: "other" }, [1, 0], 0);
  assert.deepEqual(withChange([set, mask, evenRow(PLACE, false), elsewhere], everywhere), [
    mask,
    elsewhere,
    everywhere,
  ]);
  assert.deepEqual(withChange([everywhere], set), [everywhere, set], "one step may still differ");
  assert.deepEqual(withChange([everywhere], mask), [everywhere, mask]);
});

test("hiding a position empties it in rows that were set", () => {
  const set = setRow(PLACE, [0.5, 0.3, 0.2], 0);
  const [changed, mask] = withChange([set], maskKeys(PLACE, [1], true));
  near(changed!.edit.row!, [5 / 7, 0, 2 / 7]);
  assert.equal(mask!.kind, "mask");
  assert.equal(withChange([set], maskKeys(PLACE, [0], false)).length, 1, "the dragged position itself");
});

test("a change touches its own row, and every row where it names no step", () => {
  const mask = maskKeys(PLACE, [1], false);
  assert.ok(touches(mask, PLACE));
  assert.ok(!touches(mask, { ...PLACE, step: 5 }));
  assert.ok(touches(maskKeys(PLACE, [1], true), { ...PLACE, step: 5 }));
  assert.ok(!touches(mask, { ...PLACE, site: "other" }));
});

test("a change is said in a few words", () => {
  const axes: Record<string, PageAxis> = { source: tokens(["maio", "2009"]) };
  const maps = [{ site: PLACE.site, key: "source", step: 0 }];
  const trace = { maps, axis: (name: string) => axes[name] } as unknown as LoadedTrace;
  assert.equal(plainText(saidOf(setRow(PLACE, [0.2, 0.8], 0), trace)), "maio weighs 0.20 at step 7");
  assert.equal(plainText(saidOf(evenRow(PLACE, false), trace)), "all weigh the same at step 7");
  assert.equal(plainText(saidOf(evenRow(PLACE, true), trace)), "all weigh the same at every step");
  assert.equal(plainText(saidOf(maskKeys(PLACE, [1], true), trace)), "2009 is hidden at every step");
});

test("what differs is told on both sides, moved parts and all", () => {
  const told = differing([..."2009-05-05"], [..."2009-06-05"]);
  assert.deepEqual(
    told.after.flatMap((is, i) => (is ? [i] : [])),
    [6],
  );
  const longer = differing(["a", "b"], ["x", "a", "b", "c"]);
  assert.deepEqual(longer.after, [true, false, false, true]);
  assert.deepEqual(longer.before, [false, false]);
  assert.deepEqual(differing([], ["a"]), { before: [], after: [true] });
});

test("an output reads as it was written, markers left out", () => {
  assert.equal(pieces(tokens([..."20", "<eos>"])).join(""), "20");
  assert.equal(pieces(tokens(["▁the", "▁cat", "s"])).join(""), " the cats");
  assert.equal(pieces(tokens(["the", "cats", "<eos>"])).join(""), "the cats");
  const words = tokens(["the", "cats", "."], {
    text: "the cats.",
    spans: [
      [0, 3],
      [4, 8],
      [8, 9],
    ],
  });
  assert.deepEqual(pieces(words), ["the", " cats", "."]);
});

test("words with their tags, which stand in no text, are kept apart", () => {
  const tagged = { ...tokens(["She [O]", "lives [O]"]), text: "", spans: [] };
  assert.deepEqual(pieces(tagged), ["She [O]", " lives [O]"]);
});

test("a forced output follows what stood before it", () => {
  assert.equal(prefixOf(tokens([..."2009-05", "<eos>"]), 6, "6"), "2009-06");
  const words = tokens(["the", "cats", "."], {
    text: "the cats.",
    spans: [
      [0, 3],
      [4, 8],
      [8, 9],
    ],
  });
  assert.equal(prefixOf(tokens(["the", "cats"]), 1, "dogs"), "the dogs");
  assert.equal(prefixOf(words, 1, "dogs"), "the dogs");
  assert.equal(prefixOf(words, 0, "some"), "some");
  assert.equal(prefixOf(words, 2, "!"), "the cats!");
});

test("an equation claims only what the model declares", () => {
  const site = "decoder.attention";
  const flow = (declared: Record<string, unknown>) => flowOf({ flow: { [site]: declared } }, site)!;
  const [before, after] = [
    flow({ query: ["s[t-1]"], output: ["s[t-1]", "y[t-1]", "c[t]"] }),
    flow({ query: ["s[t]"] }),
  ];
  assert.equal(scoreEquation(before, "additive", 7, 15), "e_{7,15} = v^{⊤} tanh(W s_{6} + U h_{15})");
  assert.equal(scoreEquation(after, "general", 7, 15), "e_{7,15} = s_{7}^{⊤} W h_{15}");
  assert.equal(scoreEquation(flow({ score: "w^{⊤} tanh(h[j])" }), "additive", 7, 15), "e_{7,15} = w^{⊤} tanh(h_{15})");
  assert.equal(scoreEquation(null, "scaled_dot", 7, 15), "e_{7,15} = q_{7}^{⊤} k_{15} / √d");
  assert.equal(scoreEquation(null, "my_score", 7, 15), "e_{7,15} = score(q_{7}, k_{15})");
  assert.equal(scoreEquation(null, "constructor", 7, 15), "e_{7,15} = score(q_{7}, k_{15})");
  assert.equal(scoreEquation(null, undefined, 7, 15), "e_{7,15} = score(q_{7}, k_{15})");
  assert.equal(weightEquation(7, 15, { by: "softmax", score: 4.21 }), "α_{7,15} = exp(4.21) / Σ_{i} exp(e_{7,i})");
  assert.equal(weightEquation(7, 15, { by: "other", name: "softmax · gain" }), "α_{7,15} = softmax(e_{7})_{15} · gain");
  assert.equal(weightEquation(7, 15, { by: "other", name: null }), "α_{7,15} = normalise(e_{7})_{15}");
  assert.equal(weightEquation(7, 15, { by: "hand" }), "α_{7,15}");
  assert.equal(outputEquation(before, 7), "p_{7} = g(s_{6}, y_{6}, c_{7})");
  assert.equal(outputEquation(after, 7), null);
  assert.equal(stateEquation(flow({ state: ["s[t]", "s[t-1]", "c[t]"] }), 7), "s_{7} = f(s_{6}, c_{7})");
  assert.equal(flowOf({ model: "rnnsearch" }, site), null, "a name claims nothing");
});
