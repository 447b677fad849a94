// What a page holds, what a view is given, and what it may change. Python writes PageData (views/payload.py).
import type { FunctionComponent } from "preact";
import type { OutputKind } from "./output_kind";
import type { Asked, Session } from "./what_if";

export type Dtype = "f32" | "u8" | "i32";

/** Numbers kept apart from the header: gzipped, little-endian. `u8` with `rows` means (q/255)² · rows[row]. */
export interface Block {
  block: number;
  dtype: Dtype;
  shape: number[];
  rows?: Block;
}

export interface PageData {
  format: "saccade-page";
  version: 1;
  title: string;
  traces: PageTrace[];
  /** base64 of 256 × 3 bytes: from the background (nothing) to strong */
  scale: { light: string; dark: string };
  live: LiveInfo | null;
}

export interface PageTrace {
  name: string;
  about: About;
  axes: Record<string, PageAxis>;
  maps: PageMap[];
  signals: Record<string, PageSignal>;
  outputs: PageOutputs | null;
  tree: PageTree | null;
}

/** Whose trace it is. Nothing here is certain to be there. */
export interface About {
  task?: string;
  output_kind?: OutputKind;
  input?: unknown;
  output?: unknown;
  score?: number;
  stopped?: string;
  model?: string;
  recipe?: string;
  parameters?: number;
  /** of the model, by name: {exact_match: 0.998} */
  metrics?: Record<string, number>;
  /** alignments known to be right: [query, key, sure (1) or only possible (0)] */
  gold?: [number, number, number][];
  aer?: number;
  /** the score of each site, by its name: {"decoder.attention": "additive"} */
  scores?: Record<string, string>;
  /** what the model declares of each site (flow.ts) */
  flow?: Record<string, Record<string, unknown>>;
  /** how many positions were given, not written: a language model's prompt */
  given?: number;
  /** the input as the model takes it, where `input` is not all of it: a ranker's candidates; and as one types it */
  asked?: unknown;
  typed?: string;
  /** the number of an axis's first position, where it is not 1: a pointer's points are numbered as its output numbers them */
  counts_from?: Record<string, number>;
  faithfulness?: Faithfulness;
  /** of a classifier: the probability of each class */
  labels?: Record<string, number>;
  /** of a tagger: the tag of each position, "" where none is said (a mark, the rest of a word) */
  tags?: string[];
  [name: string]: unknown;
}

export interface Faithfulness {
  sentence: string;
  figures: Record<string, number>;
  curves: { name: string; x_label: string; y_label: string; x: number[]; y: number[] }[];
}

export type AxisKind = "positions" | "tokens" | "sentences" | "grid" | "frames" | "nodes" | "visits" | "reviews";

export interface PageAxis {
  kind: AxisKind;
  labels: string[];
  /** the axis this one lies in, and for each position the position there */
  parent: string | null;
  within: number[];
  text?: string;
  spans?: [number, number][];
  words?: number[];
  special?: number[];
  height?: number;
  width?: number;
  image?: string;
  /** where the patches lie on the image: left, top, right, bottom as fractions of its sides; absent: on all of it */
  box?: [number, number, number, number];
  seconds?: number;
  rate?: number;
  /** when the first frame begins, in seconds of the recording */
  start?: number;
  /** stretches of the recording that are known to be right: symbol, start, end */
  segments?: [string, number, number][];
  spectrogram?: Block;
  audio?: string;
  places?: Block;
  times?: string[];
  ratings?: number[];
}

export type MapKind = "dense" | "top" | "statistics" | "edges";

export interface PageMap {
  site: string;
  head: number | null;
  query: string;
  key: string;
  kind: MapKind;
  /** the position on the query axis of the first row */
  step: number;
  queries: number;
  keys: number;
  tensors: Record<string, Block>;
  /** mean over the rows, in nats */
  entropy: number | null;
  /** the largest finite weight */
  largest?: number;
  thumb: Thumb | null;
  /** the mean share of a row's weight on each of these, where it was measured */
  habits?: Partial<Record<Habit, number>>;
}

/**
 * Places a head may have a habit of looking at: the position itself, its neighbours, the ends, special tokens, and the
 * straight line from corner to corner of a map between two axes.
 */
export type Habit = "itself" | "before" | "after" | "first" | "last" | "special" | "diagonal";

/** A small picture: from `at` on, rows × columns bytes; q/255 is √(weight / largest in the map). */
export interface Thumb {
  rows: number;
  columns: number;
  block: Block;
  at: number;
}

export interface PageSignal {
  axis: string;
  step: number;
  /** a row a position: [positions, numbers], or [positions, heads, numbers] */
  values: Block;
}

export interface PageOutputs {
  axis: string;
  labels: string[][];
  probability: Block;
  index: Block;
}

export interface PageTree {
  labels: string[];
  parent: number[];
  step: number[];
  log_prob: (number | null)[];
  ended: boolean[];
  chosen: boolean[];
}

export interface LiveInfo {
  model: string;
  api: string;
  /** inputs to begin with */
  examples?: string[];
  /** whether it can be measured how faithful its weights are */
  measures?: boolean;
  /** the kind of its inputs: "text", "audio", … */
  input?: string;
}

export type Numbers = Float32Array | Uint8Array | Int32Array;

/** Weights, scores or vectors by row and column. Large ones keep few entries a row: never ask for rows × columns. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  /** false: the numbers were rounded to make the page small; write ≈ before them */
  readonly exact: boolean;
  /** true: only the largest of each row are here; `residual` is what is not */
  readonly partial: boolean;
  /** the largest finite entry, 0 when there is none */
  readonly largest: number;
  /** for each row the mass that was not kept; null when all was */
  readonly residual: Float32Array | null;
  at(row: number, column: number): number;
  row(row: number): Float32Array;
  /** visits what is kept of a row; entries of dense rows include zeros */
  entries(row: number, visit: (column: number, value: number) => void): void;
}

/** A trace whose numbers come when they are asked for. */
export interface LoadedTrace extends PageTrace {
  /** the names of the places that look, in order */
  readonly sites: string[];
  /** rows are positions map.step, map.step + 1, … of the query axis */
  weights(map: PageMap): Promise<Matrix>;
  scores(map: PageMap): Promise<Matrix | null>;
  /** rows are positions signal.step, … of the signal's axis; of heads that have each their own, one's or all side by side */
  signal(name: string, head?: number | null): Promise<Matrix | null>;
  probability(): Promise<Matrix | null>;
  thumb(map: PageMap): Promise<Uint8Array | null>;
  numbers(block: Block): Promise<Numbers>;
  mapsOf(site: string): PageMap[];
  /** the last site that looks from one axis at another, else the last of all */
  lookSite(): string | null;
  /** an axis that is not in the trace becomes numbered positions */
  axis(name: string): PageAxis;
}

export type Setting = string | number | boolean;

/** Positions are those of the trace's axes: `step` on the query axis, `key` on the key axis. */
export interface State {
  trace: number;
  view: string;
  /** null: the trace's own choice (lookSite) */
  site: string | null;
  /** null: the only head, or the mean of all */
  head: number | null;
  step: number;
  /** the locked key position */
  key: number | null;
  hover: { step: number; key: number } | null;
  /** special tokens shown */
  special: boolean;
  /** subwords grouped to words */
  words: boolean;
  threshold: number;
  theme: "auto" | "light" | "dark";
  /** the trace to compare with */
  other: number | null;
  /** what single views remember, as "view.name" */
  more: Record<string, Setting | undefined>;
}

export interface EditJson {
  edit: "mask" | "boost" | "set" | "even";
  site: string | null;
  head: number | null;
  step: number | null;
  keys?: number[];
  factor?: number;
  row?: number[];
}

/** A model that answers, and shows its answer in place of the trace in front. What was asked stands in the address. */
export interface Live {
  info: LiveInfo;
  /** asks about a text, or about the content of a file, which goes by a name */
  run(input: string | { base64: string }, name?: string): Promise<void>;
  /** what it writes under these changes; without any, what was there before */
  apply(session: Session): Promise<void>;
  /** what an address names */
  restore(asked: Asked): Promise<void>;
  /** measures how faithful the weights of a trace are: `told` how often the model was asked, and will be */
  measure(trace: LoadedTrace, told: (done: number, of: number) => void, signal: AbortSignal): Promise<Faithfulness>;
}

/** Text, and tokens in it that are set apart (in italics, each in its own direction). */
export type Part = string | { token: string };

export interface ViewProps {
  trace: LoadedTrace;
  traces: LoadedTrace[];
  state: State;
  set(change: Partial<State>): void;
  /** null in a saved page */
  live: Live | null;
}

export interface View {
  id: string;
  title: string;
  /** one sentence: what one sees here */
  about: string;
  /** whether it has something for this trace, one of `traces` */
  serves(trace: PageTrace, traces?: PageTrace[]): boolean;
  /** true: the view has its own site and head pickers, so the shell shows none */
  picks?: boolean;
  /** whether anything here follows the steps, so that one can go through them; as a rule it does */
  scrubs?(state: State): boolean;
  /** whether a page about this trace opens here, and not at its first view */
  front?(trace: PageTrace): boolean;
  Component: FunctionComponent<ViewProps>;
}
