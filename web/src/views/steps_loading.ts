// What Steps needs of a trace, loaded together so that its columns always belong to one another.
import { type Action, actionOf } from "../output_kind";
import { CONTEXT, type Flow, flowOf, letterOf, points } from "../flow";
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
  /** the model's own letter of those states; null: it declares none */
  readLetter: string | null;
  context: Vectors | null;
  /** how many heads the context holds, one after the other */
  heads: number;
  /** how a step goes, as the model declares it; null: it does not */
  flow: Flow | null;
  /** the vectors of the letters in it, as far as they were kept: `s`, and `s[0]` of a first state */
  vectors: Record<string, Vectors>;
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
  const flow = flowOf(trace.about, look?.site ?? "decoder.state");
  const reads = !!look && isReading(trace, look, told, flow);
  const states = flow?.recorded[letterOf(flow.key)] ?? "encoder.state";
  // What is scored need not be what is read: a tagger may ask by words and read states.
  const readLetter = Object.entries(flow?.recorded ?? {}).find(([, signal]) => signal === states)?.[0] ?? null;
  const [scores, read, context, kept, outputs] = await Promise.all([
    look && !look.averaged ? trace.scores(look.map) : null,
    across || !look ? vectors(trace, states, look?.map.key ?? null) : null,
    // A context belongs to the site's own steps: a tagger's are the words, whose axis bears the tags.
    look ? vectors(trace, name, null, look.averaged ? null : look.map.head) : null,
    keptOf(trace, flow, written),
    reads ? null : outputsOf(trace, look),
  ]);
  const heads = (look?.averaged && trace.signals[name]?.values.shape.at(-2)) || 1;
  const action = told === "write" && outputs?.single ? "decide" : told;
  const growing = !!look && !read && isGrowing(look);
  const asks = !!flow && points(flow);
  return {
    trace,
    look,
    scores,
    read,
    readLetter,
    context,
    heads,
    flow,
    vectors: kept,
    outputs,
    action,
    reads,
    points: asks,
    growing,
  };
}

/** The vectors of the letters of a flow, on the axis of the steps. Of a model that declares none, its decoder's states. */
async function keptOf(trace: LoadedTrace, flow: Flow | null, axis: string | null): Promise<Decode["vectors"]> {
  const kept: Decode["vectors"] = {};
  const names = flow?.recorded ?? { s: "decoder.state" };
  for (const [letter, name] of Object.entries(names)) {
    const found = await vectors(trace, name, axis);
    if (found) kept[letter] = found;
  }
  return kept;
}

/** What is computed from the context on the way to the output: symbols of this step that neither ask nor are the context. */
export function betweenOf({ flow, vectors }: Decode): string[] {
  const own = (symbol: string) => symbol.endsWith("[t]") && symbol !== CONTEXT && !flow!.query.includes(symbol);
  return flow ? flow.output.filter((symbol) => own(symbol) && letterOf(symbol) in vectors) : [];
}

/** The vector of a quantity such as `s[t-1]` at a step; null where none was kept. */
export function valueAt({ vectors: kept }: Decode, symbol: string, step: number, first: number): Float32Array | null {
  const letter = letterOf(symbol);
  const at = symbol.endsWith("[t-1]") ? step - 1 : step;
  if (at < first) return vectorAt(kept[`${letter}[0]`] ?? null, first);
  return symbol === letter ? null : vectorAt(kept[letter] ?? null, at);
}

/**
 * Whether no output is read off these steps: as the model declares it; where it does not, when they are not those of the
 * outputs. A tag has the place of its word.
 */
function isReading(trace: PageTrace, { map }: Look, action: Action, flow: Flow | null): boolean {
  const { outputs } = trace;
  if (flow) return !flow.output.length;
  if (!outputs || map.query === outputs.axis || action === "tag") return false;
  return outputs.labels.length > 1 || (map.queries > 1 && action !== "score");
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
