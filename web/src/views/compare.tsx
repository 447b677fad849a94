// Compare: two traces of one input beside each other, and what lies between them.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { type Cell, Heatmap } from "../heatmap";
import { number, short } from "../labels";
import { type Look, lookAt, useLoaded, useLook } from "../look";
import { Picker, Waiting } from "../parts";
import { Token, useSay } from "../readout";
import { ColourBar, ScalePicker } from "../colour_bar";
import { type Scale, scaleName, scaleOf } from "../scale";
import { siteOf } from "../state";
import { Palette, useColours } from "../theme";
import { isChanged, sessionOf } from "../what_if";
import type { LoadedTrace, Matrix, PageTrace, Part, View, ViewProps } from "../types";
import type { Pairing } from "../aligning";
import { largestOf, movedShare, plus } from "./compare_difference";
import { changedPair, type Pair, pair, type Picture, picturesOf, rowsOf } from "./compare_pair";
import "./compare.css";

export const compare: View = {
  id: "compare",
  title: "Compare",
  about: "Two looks at one input beside each other, and the difference.",
  serves: (trace, traces = []) =>
    trace.maps.length > 0 &&
    (baseOf(trace) !== null || traces.some((other) => other !== trace && readsAlike(trace, other))),
  Component: Compare,
};

/** What stood here before the reader changed something; null where nothing is changed. */
function baseOf(trace: PageTrace): LoadedTrace | null {
  const session = sessionOf(trace as LoadedTrace);
  return isChanged(session) ? session.base : null;
}

const BEFORE = -1; // among the places of traces: the one from before the reader's changes

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
  const base = baseOf(trace);
  const others = [
    ...(base ? [BEFORE] : []),
    ...traces.flatMap((each, i) => (each !== trace && each.maps.length ? [i] : [])),
  ];
  const at = (i: number) => (i === BEFORE ? base! : traces[i]!);
  const place =
    state.other !== null && others.includes(state.other)
      ? state.other
      : (others.find((i) => readsAlike(trace, at(i))) ?? others[0]);
  const other = place === undefined ? undefined : at(place);
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
          choices={others.map((i) => ({
            value: String(i),
            label: i === BEFORE ? "what stood before you changed it" : short(traces[i]!.name || `example ${i + 1}`, 48),
          }))}
          pick={(chosen) => set({ other: Number(chosen) === BEFORE ? null : Number(chosen) })}
        />
      </div>
      {!one || !two ? (
        <Waiting error={error} />
      ) : alike(one, two) ? (
        <Both
          {...(place === BEFORE ? changedPair(two, one) : pair(one, two, namesOf(trace, other)))}
          {...{ state, set }}
        />
      ) : (
        <Unlike one={one} two={two} />
      )}
    </>
  );
}

/** The other's look at the same place, or at its own where it has no such place. */
async function matching(
  other: LoadedTrace | undefined,
  site: string | null,
  head: number | null,
): Promise<Look | null> {
  if (!other) return null;
  const at = siteOf(other, { site });
  const has = other.maps.some((map) => map.site === at && map.head === head);
  return at === null ? null : lookAt(other, at, has ? head : null);
}

function alike(one: Look, two: Look): boolean {
  return (
    one.key.labels.length === two.key.labels.length && one.key.labels.every((label, i) => label === two.key.labels[i])
  );
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
      These two do not look at the same thing, so there is nothing to subtract: one looks at {one.key.labels.length}{" "}
      positions (<Token text={mine!} />
      ), the other at {two.key.labels.length} (<Token text={theirs!} />
      ). Choose another place above, or another trace of the same input.
    </p>
  );
}

function Both({ state, set, ...compared }: Pair & Pick<ViewProps, "state" | "set">) {
  const { looks, names, front } = compared;
  const found = useMemo(() => picturesOf(compared), [...looks, ...names]);
  const { rows, pairs, both, between, sides, third } = found;
  const begin = looks[front].map.step;
  const at = state.hover ?? (state.key === null ? null : { step: state.step, key: state.key });
  const here = at && { row: at.step - begin, key: at.key };
  useSay(useMemo(() => saying(compared, both, here), [found, here?.row, here?.key]));
  // One scale for both, so that colours can be compared.
  const name = scaleName(state, looks[front].map.keys);
  const largest = Math.max(...looks.map((look) => look.weights.largest));
  const scales = useMemo(
    () => sides.map(({ matrix }) => scaleOf(name, { ...matrix, largest })),
    [sides, name, largest],
  );
  const columnLabels = looks[front].key.labels;
  const shared = { begin, columnLabels, state, set };
  return (
    <Figure
      name="compare"
      controls={<ScalePicker name={name} set={set} />}
      table={between && tableOf(between, both, rows, columnLabels)}
      caption={captionOf(
        between,
        both,
        pairs,
        names,
        looks.some((look) => look.averaged),
      )}
    >
      <Outputs pairs={pairs} rows={rows} names={names} />
      <div class="both">
        {sides.map((picture, side) => (
          <section>
            <h2 dir="auto">{picture.name}</h2>
            <Drawn picture={picture} scale={scales[side]!} {...shared} />
            <ColourBar scale={scales[side]!} />
          </section>
        ))}
        {between && third && (
          <>
            <section>
              <h2>
                <bdi>{names[1]}</bdi> − <bdi>{names[0]}</bdi>
              </h2>
              <Signed>
                <Drawn picture={third} scale={third.matrix.largest} {...shared} />
              </Signed>
            </section>
            <Largest {...{ between, both, compared, rows: rows[front], set, begin }} />
          </>
        )}
      </div>
    </Figure>
  );
}

interface DrawnProps extends Pick<ViewProps, "state" | "set"> {
  picture: Picture;
  scale: Scale | number;
  columnLabels: string[];
  /** the position of the first row of the page's own trace */
  begin: number;
}

/** A picture that hovers and locks together with the others. */
function Drawn({ picture, scale, columnLabels, begin, state, set }: DrawnProps) {
  const { name, matrix, rowLabels, toFront, fromFront } = picture;
  const cell = (position: { step: number; key: number | null }): Cell => ({
    row: fromFront(position.step - begin),
    column: position.key ?? -1,
  });
  const place = (found: Cell | null) => {
    const row = found && found.row >= 0 && found.column >= 0 ? toFront(found.row) : -1;
    return found && row >= 0 ? { step: begin + row, key: found.column } : null;
  };
  return (
    <Heatmap
      {...{ name, matrix, rowLabels, columnLabels, scale }}
      marginals={false}
      tallest={340}
      hover={state.hover && cell(state.hover)}
      locked={cell(state)}
      onHover={(found) => set({ hover: place(found) })}
      onPick={(found) => set({ hover: null, ...(place(found) ?? { key: null }) })}
    />
  );
}

/** More of the second in one hue, less in another, nothing where they agree. */
function Signed({ children }: { children: ComponentChildren }) {
  const colours = useColours();
  const signed = useMemo(() => {
    // Maps with more cells than pixels are coloured by bytes.
    const bytes = (sign: number) =>
      Uint8Array.from(
        Array.from({ length: 256 }, (_, i) =>
          colours
            .signed((sign * i) / 255)
            .match(/\d+/g)!
            .map(Number),
        ).flat(),
      );
    return { ...colours, shade: colours.signed, scale: bytes(1), below: bytes(-1) };
  }, [colours]);
  return <Palette.Provider value={signed}>{children}</Palette.Provider>;
}

function Outputs({
  pairs,
  rows,
  names,
}: {
  pairs: Pairing[];
  rows: readonly [string[], string[]];
  names: [string, string];
}) {
  return (
    <div class="outputs" tabIndex={0} role="region" aria-label="both outputs, token by token">
      <span class="whose" dir="auto">
        {names[0]}
      </span>
      <span class="whose" dir="auto">
        {names[1]}
      </span>
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

interface LargestProps {
  between: Matrix;
  both: Pairing[];
  compared: Pair;
  /** what the page's own trace wrote */
  rows: string[];
  begin: number;
  set: ViewProps["set"];
}

function Largest({ between, both, compared, rows, begin, set }: LargestProps) {
  const { looks, front } = compared;
  const spots = useMemo(() => largestOf(between, 8), [between]);
  return (
    <section>
      <h2>the largest differences</h2>
      {!spots.length && <p>There are none: both look at the same.</p>}
      <ul class="differences">
        {spots.map(({ row, key, value }) => {
          const own = both[row]![front]!;
          const [old, now] = looks.map((look, side) =>
            number(look.weights.at(both[row]![side]!, key), look.weights.exact),
          );
          return (
            <li key={`${row} ${key}`}>
              <button onClick={() => set({ step: begin + own, key })}>
                <span>
                  <Token text={short(looks[front].key.labels[key] ?? "", 24)} /> for{" "}
                  <Token text={short(rows[own] ?? "", 24)} />
                </span>
                <span>{`${old} → ${now}`}</span>
                <b>{plus(value, between.exact)}</b>
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** "*maio* for *0*: 0.93 in one, 0.80 in the other." */
function saying({ looks, names, front }: Pair, both: Pairing[], at: { row: number; key: number } | null): Part[] {
  const found = at && both.find((each) => each[front] === at.row);
  if (!at || !found) return ["Point at a cell: all three pictures show the same one."];
  const [one, two] = looks;
  const [mine, theirs] = [one.weights.at(found[0], at.key), two.weights.at(found[1], at.key)];
  const written = rowsOf(looks[front])[found[front]] ?? "";
  const [old, now] = [number(mine, one.weights.exact), number(theirs, two.weights.exact)];
  const numbers = `${old} in ${names[0]}, ${now} in ${names[1]}`;
  const between = plus(theirs - mine, one.weights.exact && two.weights.exact);
  return [
    { token: short(looks[front].key.labels[at.key] ?? "") },
    " for ",
    { token: short(written) },
    `: ${numbers} (${between}).`,
  ];
}

function captionOf(
  between: Matrix | null,
  both: Pairing[],
  pairs: Pairing[],
  names: [string, string],
  averaged: boolean,
): string {
  const said: string[] = [];
  const share = between ? movedShare(between) : NaN;
  const steps = both.length === 1 ? "one step" : `${both.length} steps`;
  if (Number.isFinite(share))
    said.push(`In the mean of ${steps}, ${number(100 * share, between!.exact, 0)} % of the attention is elsewhere.`);
  said.push(
    between ? `Blue: ${names[1]} looks there more; brown: less.` : "The maps are too large to be subtracted in a page.",
  );
  const alone = pairs.length - both.length;
  if (alone) said.push(`Left out of the difference: ${alone} of ${pairs.length} tokens, which only one of them wrote.`);
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
