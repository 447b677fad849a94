// Arcs: tokens and lines between them, as wide and as dark as one looks at the other.
import { useMemo, useState } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { grouped } from "../grouping";
import { type Line, lineOf, number, short } from "../labels";
import { type Look, useLook } from "../look";
import { Showing, Waiting } from "../parts";
import { useSay } from "../readout";
import type { Part, View, ViewProps } from "../types";
import { type Arcs, arriving, choose, leaving, type Links } from "./arcs_choice";
import type { Scene, Token } from "./arcs_drawing";
import { Picture } from "./arcs_picture";
import "./arcs.css";

export const arcs: View = {
  id: "arcs",
  title: "Arcs",
  about: "Tokens and arcs between them, as wide as one looks at the other.",
  serves: (trace) => trace.maps.some((map) => map.kind !== "edges" && map.queries > 0 && map.keys > 1),
  Component: ArcsView,
};

function ArcsView({ trace, state, set }: ViewProps) {
  const { value: look, error } = useLook(trace, state);
  if (!look) return <Waiting error={error} />;
  return <ArcsOf key={`${look.map.query} ${look.map.key}`} look={look} state={state} set={set} />;
}

const SHARE = 0.5;

/** What is drawn, and where on the axes its rows and columns lie. */
function useScene(look: Look, state: ViewProps["state"]): Scene & { rows: Line; columns: Line } {
  const { map } = look;
  return useMemo(() => {
    const rows = lineOf(look.query, state, map.step, map.step + map.queries);
    const columns = lineOf(look.key, state, 0, map.keys);
    return {
      rows,
      columns,
      isLine: map.query === map.key,
      matrix: grouped(look.weights, rows, columns, map.step),
      rowLabels: rows.labels,
      columnLabels: columns.labels,
      columnOf: (row) => columns.group[rows.from[row] ?? -1] ?? -1,
      rowOf: (column) => rows.group[columns.from[column] ?? -1] ?? -1,
    };
  }, [look, state.special, state.words]);
}

function ArcsOf({ look, state, set }: { look: Look } & Pick<ViewProps, "state" | "set">) {
  const { map } = look;
  const scene = useScene(look, state);
  const wanted = Number(state.more["arcs.mass"] ?? SHARE);
  const share = wanted >= 0 && wanted <= 1 ? wanted : SHARE;
  const chosen = useMemo(() => choose(scene.matrix, share), [scene, share]);
  const into = useMemo(() => arriving(chosen), [chosen]);
  const locked = lockOf(state, scene);
  const here = locked ?? tokenOf(scene, "query", scene.rows.group[state.step]);
  const [hover, tell] = useState<Token | null>(null);
  const focus = hover ?? locked;
  const near = useMemo(() => linksOf(scene, chosen, into, focus), [scene, chosen, focus?.side, focus?.at]);
  useSay(focus && saidOf(scene, chosen, near, focus));
  const pick = ({ side, at }: Token) => {
    const row = side === "query" ? at : scene.isLine ? scene.rowOf(at) : -1;
    const step = scene.rows.from[row] ?? state.step;
    set({ step, key: side === "query" ? null : (scene.columns.from[at] ?? null), more: { "arcs.lock": side } });
  };
  const controls = (
    <>
      <Mass share={share} set={(value) => set({ more: { "arcs.mass": value } })} />
      <Showing axes={[look.query, look.key]} state={state} set={set} />
    </>
  );
  const caption = <Caption look={look} scene={scene} arcs={chosen} share={share} />;
  const name = `${map.site}: ${map.query} looking at ${map.key}`;
  const given = { name, scene, arcs: chosen, near, focus, locked, here, onHover: tell };
  return (
    <Figure name="arcs" controls={controls} table={tableOf(scene, chosen)} caption={caption}>
      {scene.matrix.rows && scene.columnLabels.length ? (
        <Picture {...given} onPick={(token) => (token ? pick(token) : set({ key: null, more: { "arcs.lock": "" } }))} />
      ) : (
        <p class="empty">There are no tokens to draw arcs between.</p>
      )}
    </Figure>
  );
}

function lockOf(state: ViewProps["state"], scene: ReturnType<typeof useScene>): Token | null {
  const side = state.more["arcs.lock"];
  if (side === "query") return tokenOf(scene, side, scene.rows.group[state.step]);
  return side === "key" && state.key !== null ? tokenOf(scene, side, scene.columns.group[state.key]) : null;
}

function tokenOf(scene: Scene, side: Token["side"], at: number | undefined): Token | null {
  if (at === undefined || at < 0) return null;
  if (scene.isLine) return { side: "key", at: side === "query" ? scene.columnOf(at) : at };
  return { side, at };
}

function Mass({ share, set }: { share: number; set(share: number): void }) {
  return (
    <label class="arcs-mass" title="of each row, the fewest arcs that together hold this much of its weight">
      weight shown
      <input
        type="range"
        min="0.05"
        max="1"
        step="0.05"
        value={share}
        onInput={(event) => set(Number(event.currentTarget.value))}
      />
      <output>{`${Math.round(100 * share)} %`}</output>
    </label>
  );
}

function linksOf(scene: Scene, chosen: Arcs, into: (column: number) => number[], focus: Token | null): Links {
  if (!focus) return { out: [], into: [] };
  if (focus.side === "query") return { out: leaving(chosen, focus.at), into: [] };
  return { out: scene.isLine ? leaving(chosen, scene.rowOf(focus.at)) : [], into: into(focus.at) };
}

const MOST = 3; // tokens that the sentence names

function saidOf(
  { isLine, matrix, rowLabels, columnLabels }: Scene,
  chosen: Arcs,
  { out, into }: Links,
  focus: Token,
): Part[] {
  const listed = (links: number[], labels: string[], ends: Int32Array): Part[] => {
    const named = links
      .slice(0, MOST)
      .flatMap((i, n): Part[] => [
        n ? ", " : "",
        { token: short(labels[ends[i]!] ?? "", 40) },
        ` (${number(chosen.weight[i]!, matrix.exact)})`,
      ]);
    return links.length > MOST ? [...named, ` and ${links.length - MOST} more that are drawn`] : named;
  };
  const token: Part = { token: short((focus.side === "query" ? rowLabels : columnLabels)[focus.at] ?? "", 40) };
  const said: Part[] = [];
  if (focus.side === "query" || isLine)
    said.push(
      "At ",
      token,
      out.length ? " it looked at " : " it looked at nothing",
      ...listed(out, columnLabels, chosen.column),
      ". ",
    );
  if (focus.side === "key")
    said.push(
      ...(isLine ? ["It"] : [token]),
      into.length ? " was looked at from " : " was looked at from nowhere that is shown",
      ...listed(into, rowLabels, chosen.row),
      ".",
    );
  return said;
}

function tableOf({ rowLabels, columnLabels, matrix }: Scene, { row, column, weight }: Arcs): Table {
  return {
    corner: "from",
    columns: ["to", "weight"],
    rows: weight.length,
    rowLabel: (i) => rowLabels[row[i]!] ?? "",
    cell: (i, c) => (c === 0 ? short(columnLabels[column[i]!] ?? "", 40) : number(weight[i], matrix.exact, 3)),
  };
}

function Caption({ look, scene, arcs: chosen, share }: { look: Look; scene: Scene; arcs: Arcs; share: number }) {
  const { weights } = look;
  const said = [`For each position the fewest arcs that together hold ${Math.round(100 * share)} % of its weight.`];
  if (scene.isLine)
    said.push("Arcs at the left look back, those at the right ahead. Those that leave a chosen token are coloured.");
  if (look.averaged) said.push(`This is the mean of ${look.averaged} heads.`);
  if (weights.partial) said.push("The line below a token is the weight that was not kept.");
  if (chosen.short)
    said.push(`For ${chosen.short} of ${scene.matrix.rows} positions less than that was kept, and all of it is drawn.`);
  if (chosen.broken) said.push(`${chosen.broken} positions have weights that are not numbers; those are not drawn.`);
  if (!weights.exact) said.push("Numbers are rounded to keep the page small (≈).");
  return <>{said.join(" ")}</>;
}
