// The sentence of the moment, said once, in one place: to the eye at once, to a screen reader when it has settled.
import { createContext } from "preact";
import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { purposeOf } from "./output_kind";
import { evenly, factsOf, grouped } from "./grouping";
import { type Line, lineOf, number, short, wordAt } from "./labels";
import type { About, Matrix, PageAxis, PageMap, Part, State } from "./types";

const SETTLED = 350; // milliseconds without a change before it is spoken

/** What the sentence speaks of: a look, or what has the same parts. */
export interface Seen {
  map: PageMap;
  query: PageAxis;
  key: PageAxis;
  weights: Matrix;
}

/** "It looked at *maio* (0.93) to write *5*." Step and key are positions on the map's axes; key null: where it looked most. */
export function moment(look: Seen, about: About, step: number, key: number | null): Part[] {
  const row = step - look.map.step;
  if (row < 0 || row >= look.weights.rows) return [];
  const frame = frameOf(look, about, step, { token: short(look.query.labels[step] ?? String(step)) });
  return frame(key === null ? most(look, row) : weighed(look, row, key));
}

/** The same look over whole words, so that the sentence says what a grouped picture shows. */
export function inWords(look: Seen): { seen: Seen; rows: Line; columns: Line } {
  const { map, query, key, weights } = look;
  const showing = { special: true, words: true };
  const rows = lineOf(query, showing, map.step, map.step + map.queries);
  const columns = lineOf(key, showing);
  const named = (axis: PageAxis, line: Line): PageAxis => ({
    ...axis,
    labels: line.labels,
    words: undefined,
    special: [],
    spans: undefined,
  });
  const seen = {
    map: { ...map, step: 0 },
    query: named(query, rows),
    key: named(key, columns),
    weights: grouped(weights, rows, columns, map.step),
  };
  return { seen, rows, columns };
}

/** The sentence of where a state stands, as the picture shows it: over whole words where those are shown. */
export function useSentence(look: Seen | null, about: About, state: State): Part[] | null {
  const words = useMemo(() => (look && state.words ? inWords(look) : null), [look, state.words]);
  const at = state.hover ?? state;
  if (!words) return look && moment(look, about, at.step, at.key);
  const key = at.key === null ? null : (words.columns.group[at.key] ?? null);
  const given = about.given === undefined ? undefined : words.rows.group[about.given];
  return moment(words.seen, { ...about, given }, words.rows.group[at.step] ?? 0, key);
}

function most({ key, weights }: Seen, row: number): Part[] {
  const facts = factsOf(weights, row);
  if (facts.argmax < 0) return [facts.broken ? "looked at nothing that is a number" : "looked at nothing"];
  const all = weights.row(row);
  const alike = weights.partial ? 0 : evenly(all, weights.exact);
  if (alike) return [`looked at ${alike} positions alike (${number(facts.largest, weights.exact)} each)`];
  const { text, share } = mostOf(key, all);
  return [share < 0.5 ? "looked most at " : "looked at ", { token: short(text) }, ` (${number(share, weights.exact)})`];
}

/** The word with most of the weight: its parts count together. */
function mostOf(axis: PageAxis, row: ArrayLike<number>): { text: string; share: number } {
  let most = { text: "", share: -1 };
  for (let position = 0; position < row.length;) {
    const { text, to } = wordAt(axis, position);
    let share = 0;
    for (; position < to && position < row.length; position++)
      share += Number.isFinite(row[position]) ? row[position]! : 0;
    if (share > most.share) most = { text, share };
  }
  return most;
}

function weighed({ key, weights }: Seen, row: number, position: number): Part[] {
  const weight = weights.at(row, position);
  const place = placeOf(key, position);
  if (!Number.isFinite(weight)) return ["gave ", ...place, " a weight that is not a number"];
  if (weight === 0 && weights.partial) return ["gave ", ...place, " a weight too small to be kept"];
  return ["gave ", ...place, ` a weight of ${number(weight, weights.exact)}`];
}

function placeOf(axis: PageAxis, position: number): Part[] {
  const label = axis.labels[position] ?? String(position);
  const word = wordAt(axis, position);
  const token: Part = { token: short(label) };
  return word.to - word.from > 1 ? [token, " (in ", { token: short(word.text) }, ")"] : [token];
}

/** What the looking was for depends on what looks: a word being written, a tag, a class, a word among its neighbours. */
function frameOf({ map, query }: Seen, about: About, step: number, asked: Part): (said: Part[]) => Part[] {
  if (map.query === map.key) return (said) => ["At ", asked, " it ", ...said, "."];
  const purpose = purposeOf(map, query, about, step);
  if (purpose) return (said) => ["It ", ...said, ` ${purpose} `, asked, "."];
  return (said) => ["For ", asked, " it ", ...said, "."];
}

export function plainText(parts: Part[]): string {
  return parts.map((part) => (typeof part === "string" ? part : part.token)).join("");
}

/** A token among words: in its own direction, set apart. */
export function Token({ text, full }: { text: string; full?: string }) {
  return (
    <bdi class="token" dir="auto" title={full}>
      {text}
    </bdi>
  );
}

export function Said({ parts }: { parts: Part[] }) {
  return <>{parts.map((part) => (typeof part === "string" ? part : <Token text={part.token} />))}</>;
}

/** How a view says something in the readout's place; null gives the place back. */
export const Voice = createContext<(parts: Part[] | null) => void>(() => undefined);

export function useSay(parts: Part[] | null): void {
  const say = useContext(Voice);
  const text = parts && plainText(parts);
  useEffect(() => {
    say(parts);
    return () => say(null);
  }, [say, text]);
}

export function Readout({ parts }: { parts: Part[] }) {
  const [spoken, speak] = useState("");
  const text = plainText(parts);
  useEffect(() => {
    const timer = setTimeout(() => speak(text), SETTLED);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="readout">
      <p aria-hidden="true">{parts.length ? <Said parts={parts} /> : "\u00a0"}</p>
      <p class="unseen" aria-live="polite" role="status">
        {spoken}
      </p>
    </div>
  );
}
