// How one step goes, as the model declares it (saccade.trace.flow): what asks, what writes, when the state moves. What a
// model does not declare is not claimed.
import type { About } from "./types";

/** Quantities are a letter and a position: `s[t-1]`, `h[j]`; one without a position is the same at every step. */
export interface Flow {
  query: string[];
  key: string;
  /** the right side of e = …; "": the name of the score says it */
  score: string;
  /** what the output is computed from; empty: no output is read off here */
  output: string[];
  /** the new state, then what it is computed from */
  state: string[];
  /** where the context goes */
  into: string;
  /** the signal that holds a letter's vectors */
  recorded: Record<string, string>;
  /** the letter of what is written */
  word: string;
  /** without attention: how many numbers the decoder gets of the source */
  passed: number;
}

export const CONTEXT = "c[t]";
const WEIGHTS = "α[t]";

export function flowOf({ flow }: About, site: string): Flow | null {
  const found = flow && typeof flow === "object" && Object.hasOwn(flow, site) ? flow[site] : null;
  if (!found || typeof found !== "object") return null;
  const list = (name: keyof Flow) => {
    const part = found[name];
    return Array.isArray(part) ? part.filter((each): each is string => typeof each === "string") : [];
  };
  const text = (name: keyof Flow, otherwise = "") =>
    typeof found[name] === "string" ? (found[name] as string) : otherwise;
  return {
    query: list("query"),
    key: text("key", "h[j]"),
    score: text("score"),
    output: list("output"),
    state: list("state"),
    into: text("into"),
    recorded: found.recorded && typeof found.recorded === "object" ? (found.recorded as Flow["recorded"]) : {},
    word: text("word", "y"),
    passed: typeof found.passed === "number" ? found.passed : 0,
  };
}

/** `s[t-1]` at step 7 → `s_{6}`; j is the number of the key. */
export function written(symbols: string, step: number, key: number | string = "j"): string {
  return symbols
    .replace(/\[t-1\]/g, `_{${step - 1}}`)
    .replace(/\[t\]/g, `_{${step}}`)
    .replace(/\[j\]/g, `_{${key}}`);
}

export function letterOf(symbol: string): string {
  return symbol.replace(/\[.*$/, "");
}

/** Whether the weights themselves are the output. */
export function points({ output }: Flow): boolean {
  return output.length === 1 && output[0] === WEIGHTS;
}

/** Whether the state moves before it asks. */
export function movesFirst({ state, query }: Flow): boolean {
  return state.length > 0 && query.includes(state[0]!);
}

/** What the step has besides what it reads, and what each goes into: the query first, then what it had before the step. */
export function startOf(flow: Flow): { symbol: string; into: string[] }[] {
  const [moved, ...from] = flow.state;
  const before = [...flow.output, ...from].filter((symbol) => symbol.endsWith("[t-1]"));
  return [...new Set([...flow.query, ...before])].map((symbol) => ({
    symbol,
    into: [
      ...(flow.query.includes(symbol) ? ["e"] : []),
      ...(flow.output.includes(symbol) ? ["p[t]"] : []),
      ...(moved !== undefined && from.includes(symbol) ? [moved] : []),
    ],
  }));
}

/** "s₆, y₆ and c₇" */
export function listed(symbols: string[], step: number): string {
  const all = symbols.map((symbol) => written(symbol, step));
  return all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : (all[0] ?? "");
}
