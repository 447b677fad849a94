// A node in the middle of its neighbours, and the whole graph in small.
import { useMemo, useRef } from "preact/hooks";
import { useWidth } from "../heatmap";
import { number, short } from "../labels";
import { useColours } from "../theme";
import type { Matrix } from "../types";
import { type Around, around, fitted, type Neighbour } from "./graph_layout";

const DRAWN = 20; // neighbours around a node that can still be told apart

export interface Shown {
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

export function Ring({ here, node, others, self, places, name, exact, active, go, hover }: RingProps) {
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const width = useWidth(box);
  const height = Math.max(340, Math.min(0.8 * width, window.innerHeight - 380));
  const radius = { x: Math.max(60, Math.min(width / 2 - 96, 1.25 * height)), y: height / 2 - 44 };
  const ring = useMemo(
    () => around(others.slice(0, DRAWN), node, places, radius),
    [others, node, places, width, height],
  );
  const largest = Math.max(0, ...ring.map(({ weight }) => (Number.isFinite(weight) ? weight : 0))) || 1;
  const left = others.length - ring.length;
  return (
    <div ref={box}>
      <svg
        viewBox={`${-width / 2} ${-height / 2} ${width} ${height}`}
        height={height}
        role="img"
        aria-label={`${short(here)} and ${others.length} neighbours; the list beside it says the same`}
      >
        {ring.map(({ node: other, weight, x, y }) => (
          <path
            key={`e${other}`}
            class="edge"
            d={`M0 0L${x} ${y}`}
            stroke={
              other === active ? colours.accent : colours.shade(0.2 + (0.65 * Math.max(0, weight || 0)) / largest)
            }
            stroke-width={Number.isFinite(weight) ? 1 + (11 * Math.max(0, weight)) / largest : 1}
            stroke-dasharray={Number.isFinite(weight) ? undefined : "3 4"}
          />
        ))}
        {ring.map((each) => (
          <Reach key={each.node} {...{ each, name, exact, active, go, hover }} />
        ))}
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

/** A neighbour: its dot, its name and the weight of the line to it. */
function Reach({ each, name, exact, active, go, hover }: Shown & { each: Around }) {
  const colours = useColours();
  const { node, weight, x, y, angle } = each;
  const side = Math.abs(Math.cos(angle)) < 0.25 ? "middle" : Math.cos(angle) < 0 ? "end" : "start";
  const [dx, dy] = side === "middle" ? [0, Math.sin(angle) < 0 ? -30 : 22] : [side === "end" ? -11 : 11, -3];
  const place = { x: x + dx, "text-anchor": side, "dominant-baseline": "middle" } as const;
  const fill = node === active ? colours.accent : colours.ink;
  return (
    <g class="reach" onClick={() => go(node)} onPointerEnter={() => hover(node)} onPointerLeave={() => hover(null)}>
      <circle cx={x} cy={y} r={6} fill={fill} stroke={colours.paper} stroke-width={2} />
      <text {...place} y={y + dy} direction="ltr">
        {short(name(node), 14)}
      </text>
      <text {...place} y={y + dy + 15} class="quieter">
        {number(weight, exact)}
      </text>
    </g>
  );
}

/** The node itself; the ring around it is as wide as its look at itself. */
function Middle({
  here,
  self,
  exact,
  largest,
}: {
  here: string;
  self: Neighbour | undefined;
  exact: boolean;
  largest: number;
}) {
  const colours = useColours();
  // A seam of the page's colour around the letters keeps them apart from the lines below.
  const seam = {
    stroke: colours.paper,
    "stroke-width": 5,
    "paint-order": "stroke",
    "stroke-linejoin": "round",
  } as const;
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
export function Overview({ places, count, weights, step, node, others, inward, go }: OverviewProps) {
  const colours = useColours();
  const width = 280;
  const found = useMemo(() => fitted(places, count, width, 10), [places, count]);
  const lines = useMemo(() => (inward && found ? linesOf(weights, step, found.xy) : ""), [weights, found, inward]);
  if (!found) return null;
  const { xy, height } = found;
  const dot = (i: number) => `M${xy[2 * i]!.toFixed(1)} ${xy[2 * i + 1]!.toFixed(1)}h0`;
  const nearest = (event: MouseEvent) => {
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const [x, y] = [
      ((event.clientX - frame.left) / frame.width) * width,
      ((event.clientY - frame.top) / frame.height) * height,
    ];
    const far = (i: number) => Math.hypot(xy[2 * i]! - x, xy[2 * i + 1]! - y);
    let best = 0;
    for (let i = 1; i < count; i++) if (far(i) < far(best)) best = i;
    go(best);
  };
  const from =
    node < 0
      ? ""
      : others
          .slice(0, 500)
          .map(({ node: to }) => `M${xy[2 * node]} ${xy[2 * node + 1]}L${xy[2 * to]} ${xy[2 * to + 1]}`)
          .join("");
  const dots = Array.from({ length: count }, (_, i) => dot(i)).join("");
  return (
    <svg
      class="overview"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`all ${count} nodes in their places`}
      onClick={nearest}
    >
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
    weights.entries(
      row,
      (to, weight) =>
        weight !== 0 &&
        to !== step + row &&
        out.push(`M${x!.toFixed(1)} ${y!.toFixed(1)}L${xy[2 * to]!.toFixed(1)} ${xy[2 * to + 1]!.toFixed(1)}`),
    );
  }
  // A graph in which everything looks at everything would be drawn as one blot.
  return out.length > MOST_LINES ? "" : out.join("");
}
