// What Steps needs of a trace, loaded together so that its columns always belong to one another.
import { type Action, actionOf } from "../output_kind";
import { writtenAxis } from "../footer";
import { type Look, lookAt } from "../look";
import { siteOf } from "../state";
import type { LoadedTrace, Matrix, PageTrace, State } from "../types";

/** Vectors, one a position of an axis, from `first` on. */
export interface Vectors {
  values: Matrix;
  first: number;
}

export interface Decode {
  trace: LoadedTrace;
  /** null: this model looks at nothing */
  look: Look | null;
  /** of one head: the scores of several cannot be averaged */
  scores: Matrix | null;
  /** the states that are read, on the key axis */
  read: Vectors | null;
  context: Vectors | null;
  /** how many heads the context holds, one after the other */
  heads: number;
  /** the decoder's own states */
  state: Vectors | null;
  outputs: Outputs | null;
  /** what it does at a step */
  action: Action;
  /** whether nothing comes out at the steps of this look: an encoder's, among its own positions */
  reads: boolean;
  /** whether its weights are its output (a pointer network): then there is no context */
  points: boolean;
  /** whether what is looked at grows by one with each step: the model's own output */
  growing: boolean;
}

/** What was likely at each step: row r is position first + r; one row alone stands for all steps (a classifier). */
export interface Outputs {
  labels: string[][];
  probability: Matrix;
  first: number;
  single: boolean;
}

/** Whether somebody wrote something here step by step: there are outputs, or a map from what was written. */
export function isDecode(trace: PageTrace): boolean {
  const { outputs } = trace;
  const looks = trace.maps.some((map) => map.query === outputs?.axis);
  if (outputs && outputs.labels.length > 0) return looks || trace.maps.length === 0;
  return writtenAxis(trace) !== null;
}

export async function loadDecode(trace: LoadedTrace, state: Pick<State, "site" | "head">): Promise<Decode> {
  const site = siteOf(trace, state);
  const look = site === null ? null : await lookAt(trace, site, state.head);
  const across = !!look && look.map.query !== look.map.key;
  const written = look?.map.query ?? trace.outputs?.axis ?? null;
  const name = `${look?.site}.context`;
  const told = actionOf(trace.about);
  const reads = !!look && isReading(trace, look, told);
  const [scores, read, context, own, outputs] = await Promise.all([
    look && !look.averaged ? trace.scores(look.map) : null,
    across || !look ? vectors(trace, "encoder.state", look?.map.key ?? null) : null,
    look ? vectors(trace, name, written, look.averaged ? null : look.map.head) : null,
    vectors(trace, "decoder.state", written),
    reads ? null : outputsOf(trace, look),
  ]);
  const heads = (look?.averaged && trace.signals[name]?.values.shape.at(-2)) || 1;
  const points = trace.about.model === "pointer";
  const action = told === "write" && outputs?.single ? "decide" : told;
  const growing = !!look && !read && isGrowing(look);
  return { trace, look, scores, read, context, heads, state: own, outputs, action, reads, points, growing };
}

/** Whether the steps of a look are not those of the outputs: a tag has the place of its word, and one output is for all. */
function isReading(trace: PageTrace, { map }: Look, action: Action): boolean {
  const { outputs } = trace;
  return !!outputs && outputs.labels.length > 1 && map.query !== outputs.axis && action !== "tag";
}

/** Whether no row weighs anything beyond its own place: those positions were not written yet. */
function isGrowing({ map, weights }: Look): boolean {
  const more = map.keys - map.queries;
  if (more < 0 || map.queries < 2) return false;
  let beyond = false;
  for (let row = 0; row < weights.rows && !beyond; row++)
    weights.entries(row, (key, weight) => (beyond ||= weight !== 0 && key > row + more));
  return !beyond;
}

async function vectors(
  trace: LoadedTrace,
  name: string,
  axis: string | null,
  head: number | null = null,
): Promise<Vectors | null> {
  const signal = trace.signals[name];
  if (!signal || (axis !== null && signal.axis !== axis)) return null;
  const values = await trace.signal(name, head);
  return values && values.columns ? { values, first: signal.step } : null;
}

async function outputsOf(trace: LoadedTrace, look: Look | null): Promise<Outputs | null> {
  const outputs = trace.outputs;
  const probability = outputs && (await trace.probability());
  if (!outputs || !probability || !outputs.labels.length) return null;
  // What was read before the first output (a prompt) stands on the same axis and has none.
  const first = Math.max(0, trace.axis(outputs.axis).labels.length - outputs.labels.length);
  return {
    labels: outputs.labels,
    probability,
    first,
    single: !!look && look.map.query !== outputs.axis && outputs.labels.length === 1,
  };
}

/** The vector at a position, null where none was kept. */
export function vectorAt(vectors: Vectors | null, position: number): Float32Array | null {
  const row = vectors ? position - vectors.first : -1;
  return vectors && row >= 0 && row < vectors.values.rows ? vectors.values.row(row) : null;
}

export interface Likely {
  label: string;
  probability: number;
}

/** The likeliest outputs at a step, the likeliest first. */
export function likelyAt(outputs: Outputs | null, step: number): Likely[] {
  if (!outputs) return [];
  const row = outputs.single ? 0 : step - outputs.first;
  const labels = outputs.labels[row] ?? [];
  return labels
    .map((label, i) => ({ label, probability: outputs.probability.at(row, i) }))
    .sort((a, b) => (b.probability || 0) - (a.probability || 0));
}
