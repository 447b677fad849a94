// The state of the page, and the address that remembers it. Only what differs from the start is written there.
import type { PageAxis, PageMap, PageTrace, Setting, State } from "./types";

export const START: State = {
  trace: 0,
  view: "",
  site: null,
  head: null,
  step: 0,
  key: null,
  hover: null,
  special: true,
  words: false,
  threshold: 0.1,
  theme: "auto",
  other: null,
  more: {},
};

export interface Store {
  get(): State;
  set(change: Partial<State>): void;
  /** all of it, as an address says it: what it does not name is as at the start */
  put(state: State): void;
  subscribe(told: (state: State) => void): () => void;
  /** what the address named last, before it was settled: the trace it speaks of may be yet to come */
  named(): State;
  /** what `traces` are now: a live page gains some */
  settle(): void;
}

export function createStore(traces: () => PageTrace[], first: State): Store {
  let named = first;
  let state = settled(first, traces());
  const listeners = new Set<(state: State) => void>();
  const become = (next: State) => {
    state = settled(next, traces());
    listeners.forEach((told) => told(state));
  };
  return {
    get: () => state,
    set(change) {
      const moves = change.trace !== undefined && change.trace !== state.trace;
      // Positions of one trace mean nothing in another.
      const fresh = moves ? { site: null, head: null, step: START.step, key: null, hover: null } : {};
      // The step's first position depends on the site, so a new site keeps the step only where it has one.
      become({ ...state, ...fresh, ...change, more: { ...state.more, ...change.more } });
    },
    put(next) {
      named = next;
      become(next);
    },
    named: () => named,
    subscribe(told) {
      listeners.add(told);
      return () => listeners.delete(told);
    },
    settle: () => become(state),
  };
}

/** The map that a state speaks of: its site's, its head's (the first of several when all are meant). */
export function mapOf(trace: PageTrace, state: State): PageMap | null {
  const site = siteOf(trace, state);
  const maps = trace.maps.filter((map) => map.site === site);
  return maps.find((map) => map.head === state.head) ?? maps[0] ?? null;
}

export function siteOf(trace: PageTrace, state: Pick<State, "site">): string | null {
  if (state.site !== null && trace.maps.some((map) => map.site === state.site)) return state.site;
  const across = trace.maps.filter((map) => map.query !== map.key);
  return (across.at(-1) ?? trace.maps.at(-1))?.site ?? null;
}

export const SPEEDS = ["0.25", "0.5", "1", "2"];

/** How fast steps play: 1 is the usual pace. */
export function speedOf({ more }: Pick<State, "more">): number {
  return SPEEDS.includes(String(more.speed)) ? Number(more.speed) : 1;
}

/** The steps one can stand at: positions first … first + count − 1 of an axis. */
export interface Steps {
  axis: string | null;
  first: number;
  count: number;
}

export function stepsOf(trace: PageTrace, state: State): Steps {
  const map = mapOf(trace, state);
  if (map) return { axis: map.query, first: map.step, count: map.queries };
  const axis = trace.outputs?.axis ?? Object.values(trace.signals).at(-1)?.axis ?? null;
  return { axis, first: 0, count: trace.outputs?.labels.length ?? length(trace.axes[axis ?? ""]) };
}

function length(axis: PageAxis | undefined): number {
  return axis?.labels.length ?? 0;
}

function within(value: unknown, low: number, high: number): number {
  const number = Math.round(Number(value));
  return Number.isFinite(number) ? Math.max(low, Math.min(high, number)) : low;
}

/** The nearest state that these traces can show: hashes are typed by hand, and traces come and go. */
export function settled(state: State, traces: PageTrace[]): State {
  const number = within(state.trace, 0, Math.max(0, traces.length - 1));
  const trace = traces[number];
  if (!trace) return { ...state, trace: 0, site: null, head: null, step: 0, key: null, hover: null };
  const site = trace.maps.some((map) => map.site === state.site) ? state.site : null;
  const at = siteOf(trace, { site });
  const head = trace.maps.some((map) => map.site === at && map.head === state.head) ? state.head : null;
  const next: State = { ...state, trace: number, site, head };
  const { first, count } = stepsOf(trace, next);
  next.step = within(next.step, first, Math.max(first, first + count - 1));
  const map = mapOf(trace, next);
  const keys = map ? map.keys : Infinity;
  if (next.key !== null && !(next.key >= 0 && next.key < keys && Number.isInteger(next.key))) next.key = null;
  const other = state.other;
  next.other = other !== null && Number.isInteger(other) && other >= 0 && other < traces.length ? other : null;
  next.threshold = Number.isFinite(state.threshold) ? Math.max(0, Math.min(1, state.threshold)) : START.threshold;
  return next;
}

const MOST = 60; // settings read from an address: no hand writes more

/** `view=heads&step=3&x.heads.sort=entropy`: what differs from the start. */
export function toHash(state: State, start: State): string {
  const query = new URLSearchParams();
  const write = (name: string, value: Setting | null | undefined) => query.append(name, written(value ?? "none"));
  for (const name of [
    "trace",
    "view",
    "site",
    "head",
    "step",
    "key",
    "special",
    "words",
    "threshold",
    "theme",
    "other",
  ] as const) {
    if (state[name] !== start[name]) write(name, state[name]);
  }
  for (const [name, value] of Object.entries(state.more)) {
    if (value !== undefined && value !== start.more[name]) write(`x.${name}`, value);
  }
  return query.toString();
}

const LANDMARK = /^(view|trace|x\.(input|edits|prefix)(\.\d+)?)$/;

/** What of an address one goes back to: the tab, the trace, and what was asked; a step is not left by “back”. */
export function landmarks(hash: string): string {
  const named = [...new URLSearchParams(hash)].filter(([name]) => LANDMARK.test(name));
  return new URLSearchParams(named.sort(([a], [b]) => (a < b ? -1 : 1))).toString();
}

export function fromHash(hash: string, start: State): State {
  const state: State = { ...start, more: { ...start.more } };
  let query: URLSearchParams;
  try {
    query = new URLSearchParams(hash.replace(/^#/, ""));
  } catch {
    return state;
  }
  const whole = (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : null);
  [...query].slice(0, MOST).forEach(([name, text]) => {
    if (name === "trace" || name === "step") state[name] = whole(text) ?? start[name];
    else if (name === "head" || name === "key" || name === "other") state[name] = whole(text);
    else if (name === "view") state.view = text;
    else if (name === "site") state.site = text === "none" ? null : unmarked(text);
    else if (name === "special" || name === "words") state[name] = text === "true";
    else if (name === "threshold") state.threshold = Number(text);
    else if (name === "theme" && (text === "light" || text === "dark" || text === "auto")) state.theme = text;
    else if (name.startsWith("x.") && name.length > 2 && name.length < 60 && name !== "x.__proto__")
      state.more[name.slice(2)] = read(text);
  });
  return state;
}

/** A text that could be read as a number or as yes and no is marked with ' before it. */
function written(value: Setting): string {
  return typeof value === "string" && (typeof bare(value) !== "string" || value.startsWith("'"))
    ? `'${value}`
    : String(value);
}

function read(text: string): Setting {
  return text.startsWith("'") ? unmarked(text) : bare(text);
}

function unmarked(text: string): string {
  return text.startsWith("'") ? text.slice(1) : text;
}

function bare(text: string): Setting {
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d{1,15}(\.\d{1,15})?(e[+-]?\d{1,3})?$/.test(text) ? Number(text) : text;
}
