// Alignment: what was written down the side, what was read across, and how much each looked at each.
import { useMemo } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { grouped } from "../grouping";
import { type Cell, type Gold, Heatmap } from "../heatmap";
import { hasWords, type Line, lineOf, number } from "../labels";
import { type Look, useLook } from "../look";
import { ColourBar, ScalePicker } from "../colour_bar";
import { Showing, Waiting } from "../parts";
import { type Scale, scaleName, scaleOf } from "../scale";
import type { Matrix, State, View, ViewProps } from "../types";

export const alignment: View = {
  id: "alignment",
  title: "Alignment",
  about: "What is looked at across, what looks down the side: the stronger a cell, the more it was looked at.",
  serves: (trace) => trace.maps.length > 0,
  Component: Alignment,
};

function Alignment({ trace, state, set }: ViewProps) {
  const { value: look, error } = useLook(trace, state);
  if (!look) return <Waiting error={error} />;
  return (
    <AlignmentOf key={look.map.key} look={look} gold={trace.about.gold} aer={trace.about.aer} state={state} set={set} />
  );
}

interface AlignmentProps {
  /** one word for file names */
  name?: string;
  look: Look;
  gold?: [number, number, number][];
  aer?: number;
  state: State;
  set: ViewProps["set"];
}

export function AlignmentOf({ name = "alignment", look, gold, aer, state, set }: AlignmentProps) {
  const { map, weights } = look;
  const rows = useMemo(
    () => lineOf(look.query, state, map.step, map.step + map.queries),
    [look, state.special, state.words],
  );
  const columns = useMemo(() => lineOf(look.key, state), [look, state.special, state.words]);
  const matrix = useMemo(() => grouped(weights, rows, columns, map.step), [weights, rows, columns]);
  // Gold links join what was written to what was read: a text that looks at itself has none.
  const known = map.query === map.key ? undefined : gold;
  const links = useMemo(() => linksOf(known, rows, columns), [known, rows, columns]);
  const cell = (at: { step: number; key: number | null }): Cell => ({
    row: groupOf(rows, at.step),
    column: at.key === null ? -1 : groupOf(columns, at.key),
  });
  const position = ({ row, column }: Cell) => ({
    step: rows.from[row] ?? state.step,
    key: column < 0 ? null : (columns.from[column] ?? null),
  });
  const hover = (at: Cell | null) => {
    const found = at && at.row >= 0 && at.column >= 0 ? position(at) : null;
    set({ hover: found && found.key !== null ? { step: found.step, key: found.key } : null });
  };
  // A pointer that rests on the picture must not speak over the keys.
  const scaled = scaleName(state, map.keys);
  const scale = useMemo(() => scaleOf(scaled, matrix), [scaled, matrix]);
  const pick = (at: Cell | null) => set({ hover: null, ...(at ? position(at) : { key: null }) });
  return (
    <Figure
      name={name}
      table={tableOf(matrix, rows, columns, map.query)}
      controls={
        <>
          <ScalePicker name={scale.name} set={set} />
          <Showing axes={[look.query, look.key]} state={state} set={set} />
        </>
      }
      caption={<Caption {...{ look, aer, scale }} words={state.words} gold={links.length > 0} />}
      titles={{ rows: map.query, columns: map.key }}
    >
      <Heatmap
        name={`${map.site}: ${map.query} looking at ${map.key}`}
        matrix={matrix}
        rowLabels={rows.labels}
        columnLabels={columns.labels}
        hover={state.hover && cell(state.hover)}
        locked={cell(state)}
        onHover={hover}
        onPick={pick}
        gold={links}
        square={map.query === map.key}
        scale={scale}
      />
      <ColourBar scale={scale} />
    </Figure>
  );
}

function groupOf(line: Line, position: number): number {
  return line.group[position] ?? -1;
}

function linksOf(gold: [number, number, number][] | undefined, rows: Line, columns: Line): Gold[] {
  const found = new Map<string, Gold>();
  for (const [query, key, sure] of gold ?? []) {
    const [row, column] = [groupOf(rows, query), groupOf(columns, key)];
    if (row < 0 || column < 0) continue;
    const name = `${row} ${column}`;
    // Of several links between two words a sure one makes the pair sure.
    found.set(name, { row, column, sure: !!sure || !!found.get(name)?.sure });
  }
  return [...found.values()];
}

function tableOf(matrix: Matrix, rows: Line, columns: Line, corner: string): Table {
  const more = matrix.residual ? ["(not kept)"] : [];
  return {
    corner,
    columns: [...columns.labels, ...more],
    rows: rows.labels.length,
    rowLabel: (row) => rows.labels[row] ?? "",
    cell(row, column) {
      if (column >= columns.labels.length) return number(matrix.residual?.[row], matrix.exact, 3);
      const weight = matrix.at(row, column);
      return weight === 0 && matrix.partial ? "" : number(weight, matrix.exact, 3);
    },
  };
}

interface CaptionProps {
  look: Look;
  scale: Scale;
  words: boolean;
  gold: boolean;
  aer?: number;
}

function Caption({ look, scale, words, gold, aer }: CaptionProps) {
  const { weights, map, query, key } = look;
  const said = [`Each row is one ${map.query} position and shares its attention among the ${map.key} positions.`];
  said.push(scale.said);
  if (look.averaged) said.push(`This is the mean of ${look.averaged} heads.`);
  if (words && (hasWords(query) || hasWords(key)))
    said.push(
      "Subwords are grouped: weights added up over the parts of a word that is read, averaged over the parts of one that is written.",
    );
  if (weights.partial)
    said.push(
      map.kind === "statistics"
        ? "Only the largest weight of each row was kept; the rest is the column at the right."
        : "Only the largest weights of each row were kept; the rest is the column at the right.",
    );
  if (!weights.exact) said.push("Numbers are rounded to keep the page small (≈).");
  if (gold) said.push("Outlines are the gold links: solid are sure, dashed are possible.");
  return (
    <>
      {said.join(" ")}
      {aer !== undefined && Number.isFinite(aer) && map.query !== map.key && (
        <strong>{` Alignment error rate ${number(100 * aer, true, 1)} %.`}</strong>
      )}
    </>
  );
}
