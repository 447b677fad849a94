// Graph: one node and its neighbours, each line as wide as its weight; a click moves on to a neighbour.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number, short } from "../labels";
import { type Look, useLoaded } from "../look";
import { Picker, Waiting } from "../parts";
import { useSay } from "../readout";
import { useColours } from "../theme";
import type { Matrix, PageMap, PageTrace, Part, View, ViewProps } from "../types";
import { around, fitted, type Neighbour, neighboursOf } from "./graph_layout";
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

const DRAWN = 20; // neighbours around a node that can still be told apart
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
  useSay(said(here, inward ? node : -1, name, all, all.find((each) => each.node === active), incoming, weights.exact));
  const go = (to: number) => {
    const beyond = to >= map.step + map.queries;
    set(inward ? { step: to, key: null, hover: null, ...(beyond || node !== state.step ? { more: { "graph.node": beyond ? to : -1 } } : {}) } : { key: to });
  };
  const hover = (other: number | null) => set({ hover: other === null ? null : incoming ? { step: other, key: node } : { step: state.step, key: other } });
  return (
    <Figure
      name="graph"
      table={tableOf(all, name, here, incoming, weights.exact)}
      controls={
        <>
          <Choices look={look} sites={sites} state={state} set={set} steps={!inward} />
          {inward && <Picker label="node" value={String(node)} choices={key.labels.slice(0, 2000).map((label, i) => ({ value: String(i), label: short(label, 32) }))} pick={(chosen) => go(Number(chosen))} />}
          {inward && (
            <Picker
              label="lines"
              value={incoming ? "in" : "out"}
              choices={[
                { value: "out", label: "whom it looks at" },
                { value: "in", label: "who looks at it" },
              ]}
              pick={(side) => set({ more: { "graph.side": side } })}
            />
          )}
        </>
      }
      caption={<Caption look={look} here={here} others={others} self={self} incoming={incoming} />}
    >
      <div class="graph">
        <Ring here={here} node={node} others={others} self={self} places={inward ? places : null} name={name} exact={weights.exact} active={active} go={go} hover={hover} />
        <div>
          {places && <Overview places={places} count={key.labels.length} weights={weights} step={map.step} node={inward ? node : -1} others={others} inward={inward} go={go} />}
          <List others={all} name={name} exact={weights.exact} active={active} go={go} hover={hover} />
        </div>
      </div>
    </Figure>
  );
}

/** The node in the middle. Steps end with the last node that looks at any; those after it are remembered apart. */
function useNode(state: ViewProps["state"], set: ViewProps["set"], map: PageMap): number {
  const apart = Number(state.more["graph.node"] ?? -1);
  const last = useRef(state.step);
  useEffect(() => {
    if (last.current !== state.step && apart >= 0 && state.step < map.step + map.queries - 1) set({ more: { "graph.node": -1 } });
    last.current = state.step;
  }, [state.step]);
  return map.query === map.key && Number.isInteger(apart) && apart >= map.step + map.queries && apart < map.keys ? apart : state.step;
}

interface Shown {
  name(node: number): string;
  exact: boolean;
  active: number;
  go(node: number): void;
  hover(node: number | null): void;
}

interface RingProps extends Shown {
  here: string;
  node: number;
  others: Neighbour[];
  self: Neighbour | undefined;
  places: ArrayLike<number> | null;
}

function Ring({ here, node, others, self, places, name, exact, active, go, hover }: RingProps) {
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const width = useWidth(box);
  const height = Math.max(340, Math.min(0.8 * width, window.innerHeight - 380));
  const radius = { x: Math.max(60, Math.min(width / 2 - 96, 1.25 * height)), y: height / 2 - 44 };
  const ring = useMemo(() => around(others.slice(0, DRAWN), node, places, radius), [others, node, places, width, height]);
  const largest = Math.max(0, ...ring.map(({ weight }) => (Number.isFinite(weight) ? weight : 0))) || 1;
  const left = others.length - ring.length;
  return (
    <div ref={box}>
      <svg viewBox={`${-width / 2} ${-height / 2} ${width} ${height}`} height={height} role="img" aria-label={`${short(here)} and ${others.length} neighbours; the list beside it says the same`}>
        {ring.map(({ node: other, weight, x, y }) => (
          <path key={`e${other}`} class="edge" d={`M0 0L${x} ${y}`} stroke={other === active ? colours.accent : colours.shade(0.2 + (0.65 * Math.max(0, weight || 0)) / largest)} stroke-width={Number.isFinite(weight) ? 1 + (11 * Math.max(0, weight)) / largest : 1} stroke-dasharray={Number.isFinite(weight) ? undefined : "3 4"} />
        ))}
        {ring.map(({ node: other, weight, x, y, angle }) => {
          const side = Math.abs(Math.cos(angle)) < 0.25 ? "middle" : Math.cos(angle) < 0 ? "end" : "start";
          const [dx, dy] = side === "middle" ? [0, Math.sin(angle) < 0 ? -30 : 22] : [side === "end" ? -11 : 11, -3];
          return (
            <g key={other} class="reach" onClick={() => go(other)} onPointerEnter={() => hover(other)} onPointerLeave={() => hover(null)}>
              <circle cx={x} cy={y} r={6} fill={other === active ? colours.accent : colours.ink} stroke={colours.paper} stroke-width={2} />
              <text x={x + dx} y={y + dy} text-anchor={side} dominant-baseline="middle" direction="ltr">
                {short(name(other), 14)}
              </text>
              <text class="quieter" x={x + dx} y={y + dy + 15} text-anchor={side} dominant-baseline="middle">
                {number(weight, exact)}
              </text>
            </g>
          );
        })}
        <Middle here={here} self={self} exact={exact} largest={largest} />
        {left > 0 && (
          <text class="quieter" x={-width / 2 + 2} y={height / 2 - 8}>
            {`${left} weaker neighbours are in the list`}
          </text>
        )}
      </svg>
    </div>
  );
}

/** The node itself; the ring around it is as wide as its look at itself. */
function Middle({ here, self, exact, largest }: { here: string; self: Neighbour | undefined; exact: boolean; largest: number }) {
  const colours = useColours();
  // A seam of the page's colour around the letters keeps them apart from the lines below.
  const seam = { stroke: colours.paper, "stroke-width": 5, "paint-order": "stroke", "stroke-linejoin": "round" } as const;
  const own = self && Number.isFinite(self.weight) ? Math.min(14, (11 * Math.max(0, self.weight)) / largest) : 0;
  return (
    <g>
      {own > 0 && <circle r={14 + own / 2} fill="none" stroke={colours.shade(0.45)} stroke-width={own} />}
      <circle r={12} fill={colours.accent} stroke={colours.paper} stroke-width={3} />
      <text y={39} text-anchor="middle" dominant-baseline="middle" font-weight="600" font-size={15} {...seam}>
        {short(here, 18)}
      </text>
      {self && (
        <text class="quieter" y={56} text-anchor="middle" dominant-baseline="middle" {...seam}>
          {`itself ${number(self.weight, exact)}`}
        </text>
      )}
    </g>
  );
}

function List({ others, name, exact, active, go, hover }: Shown & { others: Neighbour[] }) {
  if (!others.length) return <p class="empty">No line begins or ends here.</p>;
  const most = Math.max(0, ...others.slice(0, LISTED).map(({ weight }) => (Number.isFinite(weight) ? weight : 0))) || 1;
  const rest = others.slice(LISTED).reduce((sum, { weight }) => sum + (Number.isFinite(weight) ? weight : 0), 0);
  return (
    <ol class="nearest" aria-label="neighbours by weight">
      {others.slice(0, LISTED).map(({ node, weight }) => (
        <li key={node}>
          <button class={node === active ? "active" : ""} onClick={() => go(node)} onPointerEnter={() => hover(node)} onPointerLeave={() => hover(null)} onFocus={() => hover(node)} onBlur={() => hover(null)}>
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

const MOST_LINES = 4000;

interface OverviewProps {
  places: ArrayLike<number>;
  count: number;
  weights: Matrix;
  step: number;
  node: number;
  others: Neighbour[];
  inward: boolean;
  go(node: number): void;
}

/** All nodes where they are, each line of the graph thin, those of the node in the middle strong. One path holds them all. */
function Overview({ places, count, weights, step, node, others, inward, go }: OverviewProps) {
  const colours = useColours();
  const width = 280;
  const found = useMemo(() => fitted(places, count, width, 10), [places, count]);
  const lines = useMemo(() => (inward && found ? linesOf(weights, step, found.xy) : ""), [weights, found, inward]);
  if (!found) return null;
  const { xy, height } = found;
  const dot = (i: number) => `M${xy[2 * i]!.toFixed(1)} ${xy[2 * i + 1]!.toFixed(1)}h0`;
  const nearest = (event: MouseEvent) => {
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const [x, y] = [((event.clientX - frame.left) / frame.width) * width, ((event.clientY - frame.top) / frame.height) * height];
    const far = (i: number) => Math.hypot(xy[2 * i]! - x, xy[2 * i + 1]! - y);
    let best = 0;
    for (let i = 1; i < count; i++) if (far(i) < far(best)) best = i;
    go(best);
  };
  const from = node < 0 ? "" : others.slice(0, 500).map(({ node: to }) => `M${xy[2 * node]} ${xy[2 * node + 1]}L${xy[2 * to]} ${xy[2 * to + 1]}`).join("");
  const dots = Array.from({ length: count }, (_, i) => dot(i)).join("");
  return (
    <svg class="overview" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`all ${count} nodes in their places`} onClick={nearest}>
      <path d={lines} fill="none" stroke={colours.line} stroke-width={1} />
      <path d={from} fill="none" stroke={colours.accent} stroke-width={1.5} />
      <path d={dots} stroke={colours.quiet} stroke-width={count > 400 ? 2 : 5} stroke-linecap="round" />
      {node >= 0 && <path d={dot(node)} stroke={colours.accent} stroke-width={10} stroke-linecap="round" />}
    </svg>
  );
}

function linesOf(weights: Matrix, step: number, xy: Float32Array): string {
  const out: string[] = [];
  for (let row = 0; row < weights.rows && out.length <= MOST_LINES; row++) {
    const [x, y] = [xy[2 * (step + row)], xy[2 * (step + row) + 1]];
    weights.entries(row, (to, weight) => weight !== 0 && to !== step + row && out.push(`M${x!.toFixed(1)} ${y!.toFixed(1)}L${xy[2 * to]!.toFixed(1)} ${xy[2 * to + 1]!.toFixed(1)}`));
  }
  // A graph in which everything looks at everything would be drawn as one blot.
  return out.length > MOST_LINES ? "" : out.join("");
}

function said(here: string, node: number, name: (node: number) => string, all: Neighbour[], chosen: Neighbour | undefined, incoming: boolean, exact: boolean): Part[] {
  const told = chosen ?? all[0];
  const focus: Part = { token: short(here) };
  if (!told) return [focus, incoming ? " is looked at by no one." : " looks at no one."];
  const other: Part = { token: short(name(told.node)) };
  if (!Number.isFinite(told.weight)) return [focus, " and ", other, " share a weight that is not a number."];
  const weight = ` (${number(told.weight, exact)}).`;
  const same = told.node === node;
  if (incoming) return [same ? focus : other, " looked at ", same ? "itself" : focus, chosen ? "" : " more than any other did", weight];
  return [focus, chosen ? " looked at " : " looked most at ", same ? "itself" : other, weight];
}

function tableOf(all: Neighbour[], name: (node: number) => string, here: string, incoming: boolean, exact: boolean): Table {
  return {
    corner: incoming ? "from" : "to",
    columns: [`${incoming ? "to" : "from"} ${short(here, 40)}`],
    rows: all.length,
    rowLabel: (row) => name(all[row]!.node),
    cell: (row) => number(all[row]!.weight, exact, 3),
  };
}

function Caption({ look, here, others, self, incoming }: { look: Look; here: string; others: Neighbour[]; self: Neighbour | undefined; incoming: boolean }) {
  const sum = others.reduce((total, { weight }) => total + (Number.isFinite(weight) ? weight : 0), 0);
  const whole = `${others.length} ${others.length === 1 ? "neighbour" : "neighbours"}, together ${number(sum, look.weights.exact)}`;
  return (
    <>
      <bdi dir="auto">{short(here, 40)}</bdi>
      {incoming ? ` is looked at by ${whole}.` : ` looks at ${whole}${self ? `, and at itself with ${number(self.weight, look.weights.exact)}` : ""}.`}
      {" The wider a line, the larger its weight. Click a neighbour to move there."}
      {look.averaged && ` This is the mean of ${look.heads.length} heads.`}
    </>
  );
}
