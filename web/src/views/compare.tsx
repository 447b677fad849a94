// Compare: two traces of one input beside each other, and what lies between them.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { type Cell, Heatmap } from "../heatmap";
import { number, short } from "../labels";
import { type Look, lookAt, useLoaded, useLook } from "../look";
import { dense } from "../matrices";
import { Picker, Waiting } from "../parts";
import { Token, useSay } from "../readout";
import { siteOf } from "../state";
import { Palette, useColours } from "../theme";
import type { LoadedTrace, Matrix, PageTrace, Part, View, ViewProps } from "../types";
import { aligned, type Pairing } from "./compare_align";
import "./compare.css";

export const compare: View = {
  id: "compare",
  title: "Compare",
  about: "Two looks at one input beside each other, and the difference.",
  serves: (trace, traces = []) => traces.some((other) => other !== trace && readsAlike(trace, other)),
  Component: Compare,
};

const MOST = 4_000_000; // cells of a difference that are worth the memory

function keysOf(trace: PageTrace, site: string | null): string[] {
  const map = trace.maps.find((each) => each.site === site);
  return map ? (trace.axes[map.key]?.labels ?? []) : [];
}

/** Whether both look at the same positions. */
function readsAlike(one: PageTrace, other: PageTrace): boolean {
  const [mine, theirs] = [one, other].map((trace) => keysOf(trace, siteOf(trace, { site: null })));
  return mine!.length > 0 && mine!.length === theirs!.length && mine!.every((label, i) => label === theirs![i]);
}

function Compare({ trace, traces, state, set }: ViewProps) {
  const others = traces.flatMap((each, i) => (each !== trace && each.maps.length ? [i] : []));
  const place = state.other !== null && others.includes(state.other) ? state.other : (others.find((i) => readsAlike(trace, traces[i]!)) ?? others[0]);
  const other = place === undefined ? undefined : traces[place];
  const mine = useLook(trace, state);
  const theirs = useLoaded(() => matching(other, state.site, state.head), [state.site, state.head], other);
  if (!other) return <p class="empty">There is no other trace in this page to compare with.</p>;
  const error = mine.error ?? theirs.error;
  const [one, two] = [mine.value, theirs.value];
  return (
    <>
      <div class="where">
        <Picker
          label="with"
          value={String(place)}
          choices={others.map((i) => ({ value: String(i), label: short(traces[i]!.name || `example ${i + 1}`, 48) }))}
          pick={(chosen) => set({ other: Number(chosen) })}
        />
      </div>
      {!one || !two ? (
        <Waiting error={error} />
      ) : alike(one, two) ? (
        <Both {...{ one, two, names: namesOf(trace, other), state, set }} />
      ) : (
        <Unlike one={one} two={two} />
      )}
    </>
  );
}

/** The other's look at the same place, or at its own where it has no such place. */
async function matching(other: LoadedTrace | undefined, site: string | null, head: number | null): Promise<Look | null> {
  if (!other) return null;
  const at = siteOf(other, { site });
  const has = other.maps.some((map) => map.site === at && map.head === head);
  return at === null ? null : lookAt(other, at, has ? head : null);
}

function alike(one: Look, two: Look): boolean {
  return one.key.labels.length === two.key.labels.length && one.key.labels.every((label, i) => label === two.key.labels[i]);
}

function namesOf(one: LoadedTrace, two: LoadedTrace): [string, string] {
  const models = [one, two].map((trace) => String(trace.about.recipe ?? trace.about.model ?? ""));
  const names = models[0] && models[1] && models[0] !== models[1] ? models : [one.name, two.name];
  return [short(names[0] || "this", 32), short(names[1] || "the other", 32)];
}

function Unlike({ one, two }: { one: Look; two: Look }) {
  useSay([]);
  const [mine, theirs] = [one, two].map((look) => short(look.key.labels.slice(0, 12).join(" "), 60));
  return (
    <p class="empty">
      These two do not look at the same thing, so there is nothing to subtract: one looks at {one.key.labels.length} positions (<Token text={mine!} />
      ), the other at {two.key.labels.length} (<Token text={theirs!} />
      ). Choose another place above, or another trace of the same input.
    </p>
  );
}

interface BothProps {
  one: Look;
  two: Look;
  names: [string, string];
  state: ViewProps["state"];
  set: ViewProps["set"];
}

/** Labels of a look's rows. */
function rowsOf(look: Look): string[] {
  return look.query.labels.slice(look.map.step, look.map.step + look.map.queries);
}

function Both({ one, two, names, state, set }: BothProps) {
  const rows = [rowsOf(one), rowsOf(two)] as const;
  const pairs = useMemo(() => aligned(...rows), [one, two]);
  const both = useMemo(() => pairs.filter(([a, b]) => a >= 0 && b >= 0), [pairs]);
  const between = useMemo(() => differenceOf(one.weights, two.weights, both), [one, two, both]);
  const first = one.map.step;
  const at = state.hover ?? (state.key === null ? null : { step: state.step, key: state.key });
  useSay(useMemo(() => saying(one, two, names, both, at && { a: at.step - first, key: at.key }), [one, two, both, at?.step, at?.key]));
  /** a cell of one of the three pictures: `rowOf` finds its row in the first */
  const hand = (rowOf: (row: number) => number, inverse: (a: number) => number) => {
    const cell = (position: { step: number; key: number | null }): Cell => ({ row: inverse(position.step - first), column: position.key ?? -1 });
    const place = (found: Cell | null) => (found && found.row >= 0 && found.column >= 0 && rowOf(found.row) >= 0 ? { step: first + rowOf(found.row), key: found.column } : null);
    return { hover: state.hover && cell(state.hover), locked: cell(state), onHover: (found: Cell | null) => set({ hover: place(found) }), onPick: (found: Cell | null) => set(place(found) ?? { key: null }) };
  };
  const largest = Math.max(one.weights.largest, two.weights.largest);
  const columnLabels = one.key.labels;
  const shared = { columnLabels, marginals: false, tallest: 340 };
  return (
    <Figure name="compare" table={between && tableOf(between, both, rows, columnLabels)} caption={captionOf(between, both, pairs, names, one.averaged || two.averaged)}>
      <Outputs pairs={pairs} rows={rows} names={names} />
      <div class="both">
        <section>
          <h2 dir="auto">{names[0]}</h2>
          <Heatmap name={names[0]} matrix={one.weights} rowLabels={rows[0]} largest={largest} {...shared} {...hand((row) => row, (a) => a)} />
        </section>
        <section>
          <h2 dir="auto">{names[1]}</h2>
          <Heatmap
            name={names[1]}
            matrix={two.weights}
            rowLabels={rows[1]}
            largest={largest}
            {...shared}
            {...hand((row) => both.find((pair) => pair[1] === row)?.[0] ?? -1, (a) => both.find((pair) => pair[0] === a)?.[1] ?? -1)}
          />
        </section>
        {between && (
          <>
            <section>
              <h2>
                <bdi>{names[1]}</bdi> − <bdi>{names[0]}</bdi>
              </h2>
              <Signed>
                <Heatmap
                  name="the difference"
                  matrix={between}
                  rowLabels={both.map(([a, b]) => (rows[0][a] === rows[1][b] ? rows[0][a]! : `${rows[0][a]} | ${rows[1][b]}`))}
                  {...shared}
                  {...hand((row) => both[row]?.[0] ?? -1, (a) => both.findIndex((pair) => pair[0] === a))}
                />
              </Signed>
            </section>
            <Largest {...{ between, both, rows: rows[0], one, two, set, first }} />
          </>
        )}
      </div>
    </Figure>
  );
}

/** More of the second in one hue, less in another, nothing where they agree. */
function Signed({ children }: { children: ComponentChildren }) {
  const colours = useColours();
  const signed = useMemo(() => {
    // Maps with more cells than pixels are coloured by bytes.
    const bytes = (sign: number) => Uint8Array.from(Array.from({ length: 256 }, (_, i) => colours.signed((sign * i) / 255).match(/\d+/g)!.map(Number)).flat());
    return { ...colours, shade: colours.signed, scale: bytes(1), below: bytes(-1) };
  }, [colours]);
  return <Palette.Provider value={signed}>{children}</Palette.Provider>;
}

function differenceOf(one: Matrix, two: Matrix, both: Pairing[]): Matrix | null {
  const wide = one.columns;
  if (both.length * wide > MOST) return null;
  const values = new Float32Array(both.length * wide);
  both.forEach(([a, b], row) => {
    two.entries(b, (c, value) => (values[row * wide + c]! += value));
    one.entries(a, (c, value) => (values[row * wide + c]! -= value));
  });
  const found = dense(values, both.length, wide, one.exact && two.exact);
  const largest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
  return Object.defineProperty(found, "largest", { value: largest });
}

function Outputs({ pairs, rows, names }: { pairs: Pairing[]; rows: readonly [string[], string[]]; names: [string, string] }) {
  return (
    <div class="outputs" tabIndex={0} role="region" aria-label="both outputs, token by token">
      <span class="whose" dir="auto">{names[0]}</span>
      <span class="whose" dir="auto">{names[1]}</span>
      {pairs.slice(0, 400).map(([a, b]) =>
        ([rows[0][a], rows[1][b]] as const).map((label, side) => (
          <span key={side} class={rows[0][a] === rows[1][b] ? undefined : "differs"} dir="auto">
            {label === undefined ? "·" : short(label, 24)}
          </span>
        )),
      )}
    </div>
  );
}

interface Spot {
  row: number;
  key: number;
  value: number;
}

function largestOf(between: Matrix, count: number): Spot[] {
  const found: Spot[] = [];
  for (let row = 0; row < between.rows; row++)
    between.entries(row, (key, value) => {
      if (!(Math.abs(value) > (found.length < count ? 0 : Math.abs(found[count - 1]!.value)))) return;
      found.push({ row, key, value });
      found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).splice(count);
    });
  return found;
}

interface LargestProps {
  between: Matrix;
  both: Pairing[];
  rows: string[];
  one: Look;
  two: Look;
  first: number;
  set: ViewProps["set"];
}

function Largest({ between, both, rows, one, two, first, set }: LargestProps) {
  const spots = useMemo(() => largestOf(between, 8), [between]);
  return (
    <section>
      <h2>the largest differences</h2>
      {!spots.length && <p>There are none: both look at the same.</p>}
      <ul class="differences">
        {spots.map(({ row, key, value }) => {
          const [a, b] = both[row]!;
          return (
            <li key={`${row} ${key}`}>
              <button onClick={() => set({ step: first + a, key })}>
                <span>
                  <Token text={short(one.key.labels[key] ?? "", 24)} /> for <Token text={short(rows[a] ?? "", 24)} />
                </span>
                <span>{`${number(one.weights.at(a, key), one.weights.exact)} → ${number(two.weights.at(b, key), two.weights.exact)}`}</span>
                <b>{plus(value, between.exact)}</b>
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function plus(value: number, exact: boolean): string {
  return (value > 0 ? "+" : "") + number(value, exact);
}

/** "*maio* for *0*: 0.93 in one, 0.80 in the other." */
function saying(one: Look, two: Look, names: [string, string], both: Pairing[], at: { a: number; key: number } | null): Part[] {
  const pair = at && both.find(([a]) => a === at.a);
  if (!at || !pair) return ["Point at a cell: all three pictures show the same one."];
  const [mine, theirs] = [one.weights.at(pair[0], at.key), two.weights.at(pair[1], at.key)];
  const written = rowsOf(one)[pair[0]] ?? "";
  return [{ token: short(one.key.labels[at.key] ?? "") }, " for ", { token: short(written) }, `: ${number(mine, one.weights.exact)} in ${names[0]}, ${number(theirs, two.weights.exact)} in ${names[1]} (${plus(theirs - mine, true)}).`];
}

/** How much of the attention is elsewhere, in the mean of the steps that both have: ½ Σ |difference|. */
function movedShare(between: Matrix): number {
  let sum = 0;
  for (let row = 0; row < between.rows; row++) between.entries(row, (_, value) => (sum += Math.abs(value) / 2));
  return sum / Math.max(1, between.rows);
}

function captionOf(between: Matrix | null, both: Pairing[], pairs: Pairing[], names: [string, string], averaged: boolean): string {
  const said: string[] = [];
  if (between) said.push(`In the mean of ${both.length === 1 ? "one step" : `${both.length} steps`}, ${number(100 * movedShare(between), between.exact, 0)} % of the attention is elsewhere.`);
  if (between) said.push(`Blue: ${names[1]} looks there more; brown: less.`);
  else said.push("The maps are too large to be subtracted in a page.");
  if (both.length < pairs.length) said.push(`${pairs.length - both.length} ${pairs.length - both.length === 1 ? "token has" : "tokens have"} no counterpart and ${pairs.length - both.length === 1 ? "is" : "are"} left out of the difference.`);
  if (averaged) said.push("Of several heads this is the mean.");
  return said.join(" ");
}

function tableOf(between: Matrix, both: Pairing[], rows: readonly [string[], string[]], columns: string[]): Table {
  return {
    corner: "difference",
    columns,
    rows: both.length,
    rowLabel: (row) => rows[0][both[row]![0]] ?? "",
    cell: (row, column) => plus(between.at(row, column), between.exact),
  };
}
