// Graph: one node and its neighbours, each line as wide as its weight; a click moves on to a neighbour.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { evenly } from "../grouping";
import { Figure, type Table } from "../figure";
import { number, short } from "../labels";
import { type Look, useLoaded } from "../look";
import { Picker, Waiting } from "../parts";
import { useSay } from "../readout";
import type { PageMap, PageTrace, Part, View, ViewProps } from "../types";
import { type Neighbour, neighboursOf } from "./graph_layout";
import { Overview, Ring, type Shown } from "./graph_picture";
import { Bar, Choices, keyKind, serving, useFitting } from "./sources";
import "./graph.css";

function fits(map: PageMap, trace: PageTrace): boolean {
  return keyKind(trace, map) === "nodes";
}

export const graph: View = {
  id: "graph",
  front: (trace) => !trace.outputs, // not of a text that is written step by step
  title: "Graph",
  about: "One node and its neighbours: the wider a line, the more was looked along it.",
  picks: true,
  serves: serving(fits),
  Component: Graph,
};

function Graph(props: ViewProps) {
  const { trace } = props;
  const { value: look, error, sites } = useFitting(props, fits);
  const block = look?.key.places;
  const { value: places, error: broken } = useLoaded(async () => (block ? trace.numbers(block) : null), [block], trace);
  if (!look || (block && !places)) return <Waiting error={error ?? broken} />;
  return <GraphOf {...props} look={look} places={places} sites={sites} />;
}

const LISTED = 200;

type GraphProps = ViewProps & { look: Look; places: ArrayLike<number> | null; sites: string[] };

function GraphOf({ state, set, look, places, sites }: GraphProps) {
  const { map, weights, key, query } = look;
  const inward = map.query === map.key; // nodes look at nodes: one can move from node to node
  const incoming = inward && state.more["graph.side"] === "in";
  const node = useNode(state, set, map);
  const all = useMemo(() => neighboursOf(weights, node, map.step, incoming), [weights, node, incoming]);
  const others = inward ? all.filter((each) => each.node !== node) : all;
  const self = inward ? all.find((each) => each.node === node) : undefined;
  const active = state.hover ? (incoming ? state.hover.step : state.hover.key) : -1;
  const name = (at: number) => (incoming ? query : key).labels[at] ?? String(at);
  const here = query.labels[node] ?? String(node);
  const told = all.find((each) => each.node === active);
  useSay(said({ here, node: inward ? node : -1, name, incoming, exact: weights.exact }, all, told));
  const go = (to: number) => {
    if (!inward) return set({ key: to });
    const beyond = to >= map.step + map.queries;
    const apart = beyond || node !== state.step ? { more: { "graph.node": beyond ? to : -1 } } : {};
    set({ step: to, key: null, hover: null, ...apart });
  };
  const hover = (other: number | null) =>
    set({ hover: other === null ? null : incoming ? { step: other, key: node } : { step: state.step, key: other } });
  const shown: Shown = { name, exact: weights.exact, active, go, hover };
  const seen = { weights, step: map.step, node: inward ? node : -1, others, inward, go };
  return (
    <Figure
      name="graph"
      table={tableOf(all, name, here, incoming, weights.exact)}
      controls={
        <>
          <Choices look={look} sites={sites} state={state} set={set} steps={!inward} />
          {inward && <Nodes labels={key.labels} node={node} incoming={incoming} go={go} set={set} />}
        </>
      }
      caption={<Caption look={look} here={here} others={others} self={self} incoming={incoming} />}
    >
      <div class="graph">
        <Ring {...{ here, node, others, self, ...shown }} places={inward ? places : null} />
        <div>
          {places && <Overview places={places} count={key.labels.length} {...seen} />}
          <List others={all} {...shown} />
        </div>
      </div>
    </Figure>
  );
}

const NAMED = 2000; // entries of a menu
const SIDES = [
  { value: "out", label: "whom it looks at" },
  { value: "in", label: "who looks at it" },
];

interface NodesProps {
  labels: string[];
  node: number;
  incoming: boolean;
  go(node: number): void;
  set: ViewProps["set"];
}

/** Which node is in the middle, and which of its lines are drawn. */
function Nodes({ labels, node, incoming, go, set }: NodesProps) {
  const choices = useMemo(
    () => labels.slice(0, NAMED).map((label, i) => ({ value: String(i), label: short(label, 32) })),
    [labels],
  );
  return (
    <>
      <Picker label="node" value={String(node)} choices={choices} pick={(chosen) => go(Number(chosen))} />
      <Picker
        label="lines"
        value={incoming ? "in" : "out"}
        choices={SIDES}
        pick={(side) => set({ more: { "graph.side": side } })}
      />
    </>
  );
}

/** The node in the middle. Steps end with the last node that looks at any; those after it are remembered apart. */
function useNode(state: ViewProps["state"], set: ViewProps["set"], map: PageMap): number {
  const apart = Number(state.more["graph.node"] ?? -1);
  const last = useRef(state.step);
  useEffect(() => {
    if (last.current !== state.step && apart >= 0 && state.step < map.step + map.queries - 1)
      set({ more: { "graph.node": -1 } });
    last.current = state.step;
  }, [state.step]);
  return map.query === map.key && Number.isInteger(apart) && apart >= map.step + map.queries && apart < map.keys
    ? apart
    : state.step;
}

function List({ others, name, exact, active, go, hover }: Shown & { others: Neighbour[] }) {
  if (!others.length) return <p class="empty">No line begins or ends here.</p>;
  const most = Math.max(0, ...others.slice(0, LISTED).map(({ weight }) => (Number.isFinite(weight) ? weight : 0))) || 1;
  const rest = others.slice(LISTED).reduce((sum, { weight }) => sum + (Number.isFinite(weight) ? weight : 0), 0);
  return (
    <ol class="nearest" aria-label="neighbours by weight">
      {others.slice(0, LISTED).map(({ node, weight }) => (
        <li key={node}>
          <button
            class={node === active ? "active" : ""}
            onClick={() => go(node)}
            onPointerEnter={() => hover(node)}
            onPointerLeave={() => hover(null)}
            onFocus={() => hover(node)}
            onBlur={() => hover(null)}
          >
            <bdi dir="auto">{short(name(node), 40)}</bdi>
            <Bar share={weight / most} />
            <span>{number(weight, exact)}</span>
          </button>
        </li>
      ))}
      {others.length > LISTED && <li>{`${others.length - LISTED} others, together ${number(rest, exact)}`}</li>}
    </ol>
  );
}

interface Focus extends Pick<Shown, "name" | "exact"> {
  here: string;
  /** −1: what looks is no node */
  node: number;
  incoming: boolean;
}

function said({ here, node, name, incoming, exact }: Focus, all: Neighbour[], chosen: Neighbour | undefined): Part[] {
  const told = chosen ?? all[0];
  const focus: Part = { token: short(here) };
  if (!told) return [focus, incoming ? " is looked at by no one." : " looks at no one."];
  const other: Part = { token: short(name(told.node)) };
  if (!Number.isFinite(told.weight)) return [focus, " and ", other, " share a weight that is not a number."];
  const alike = chosen
    ? 0
    : evenly(
        all.map((each) => each.weight),
        exact,
      );
  if (alike)
    return incoming
      ? [`${alike} looked at `, focus, ` alike (${number(told.weight, exact)} each).`]
      : [focus, ` looked at ${alike} alike (${number(told.weight, exact)} each).`];
  const weight = ` (${number(told.weight, exact)}).`;
  const same = told.node === node;
  if (incoming)
    return [
      same ? focus : other,
      " looked at ",
      same ? "itself" : focus,
      chosen ? "" : " more than any other did",
      weight,
    ];
  return [focus, chosen ? " looked at " : " looked most at ", same ? "itself" : other, weight];
}

function tableOf(
  all: Neighbour[],
  name: (node: number) => string,
  here: string,
  incoming: boolean,
  exact: boolean,
): Table {
  return {
    corner: incoming ? "from" : "to",
    columns: [`${incoming ? "to" : "from"} ${short(here, 40)}`],
    rows: all.length,
    rowLabel: (row) => name(all[row]!.node),
    cell: (row) => number(all[row]!.weight, exact, 3),
  };
}

function Caption({
  look,
  here,
  others,
  self,
  incoming,
}: {
  look: Look;
  here: string;
  others: Neighbour[];
  self: Neighbour | undefined;
  incoming: boolean;
}) {
  const sum = others.reduce((total, { weight }) => total + (Number.isFinite(weight) ? weight : 0), 0);
  const whole = `${others.length} ${others.length === 1 ? "neighbour" : "neighbours"}, together ${number(sum, look.weights.exact)}`;
  return (
    <>
      <bdi dir="auto">{short(here, 40)}</bdi>
      {incoming
        ? ` is looked at by ${whole}.`
        : ` looks at ${whole}${self ? `, and at itself with ${number(self.weight, look.weights.exact)}` : ""}.`}
      {" The wider a line, the larger its weight. Click a neighbour to move there."}
      {look.averaged > 0 && ` This is the mean of ${look.averaged} heads.`}
    </>
  );
}
