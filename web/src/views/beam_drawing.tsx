// The drawing of a beam's tree: only the columns in view, so that a thousand steps are as quick as ten.
import { number, short } from "../labels";
import { fitted, textWidth } from "../pen";
import type { PageTree } from "../types";
import { depthsOf, type Layout, parentOf, pathTo } from "./beam_layout";

/** Three sizes: how high a row is, and whether there is room for numbers under the tokens. */
export const SIZES = [
  { row: 22, parts: false, gap: 14, widest: 56 },
  { row: 44, parts: true, gap: 26, widest: 120 },
  { row: 56, parts: true, gap: 44, widest: 220 },
];
type Size = (typeof SIZES)[number];

const WIDEST_GAP = 72;
const LEFT = 14;
const TOP = 22;
const SQUARE = 9;

export interface Places {
  size: Size;
  /** of each node: where its label begins, and how wide it is */
  x: Float64Array;
  wide: Float64Array;
  label: string[];
  y(node: number): number;
  width: number;
  height: number;
}

/** Columns as wide as their labels ask for, and apart as far as the room of the page allows. */
export function placesOf(tree: PageTree, layout: Layout, size: Size, room: number): Places {
  const depth = depthsOf(tree, layout.children);
  const label = tree.labels.map((each, node) =>
    tree.ended[node] ? "" : fitted(short(each, 40), size.widest, 15, true),
  );
  const parts = tree.labels.map((_, node) => (size.parts ? textWidth(sumOf(tree, node)) : 0));
  const wide = Float64Array.from(label, (text, node) =>
    tree.ended[node] ? SQUARE : Math.max(8, textWidth(text, 15, true)),
  );
  const columns = new Float64Array(layout.columns + 1);
  depth.forEach((column, node) => (columns[column] = Math.max(columns[column]!, wide[node]!, parts[node]!)));
  const needed = columns.reduce((sum, each) => sum + each, 2 * LEFT);
  const gap = size.parts ? Math.max(size.gap, Math.min(WIDEST_GAP, (room - needed) / (layout.columns + 1))) : size.gap;
  const from = new Float64Array(layout.columns + 1);
  for (let column = 0; column <= layout.columns; column++)
    from[column] = column ? from[column - 1]! + columns[column - 1]! + gap : LEFT + size.gap;
  return {
    size,
    x: Float64Array.from(depth, (column) => from[column]!),
    wide,
    label,
    y: (node) => TOP + layout.row[node]! * size.row,
    width: from[layout.columns]! - gap + LEFT,
    height: TOP + (layout.rows - 1) * size.row + (size.parts ? 40 : 22),
  };
}

/** To two digits: among sums of logarithms smaller differences decide nothing. */
function sumOf(tree: PageTree, node: number): string {
  const sum = tree.log_prob[node] ?? NaN;
  return number(Math.abs(sum) < 0.005 ? 0 : sum);
}

interface DrawingProps {
  tree: PageTree;
  places: Places;
  /** the node whose way is shown */
  node: number;
  selected: number;
  hover(node: number | null): void;
  open(node: number): void;
  seen: { left: number; right: number };
}

export function BeamDrawing({ tree, places, node, selected, hover, open, seen }: DrawingProps) {
  const on = new Set(pathTo(tree, node));
  const { x, width, height } = places;
  const shown = tree.labels.flatMap((_, each) => (x[each]! > seen.left - 300 && x[each]! < seen.right ? [each] : []));
  // What is chosen or pointed at lies on top of what is not.
  const order = [...shown].sort((one, other) => weight(tree, on, one) - weight(tree, on, other));
  return (
    <svg
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      aria-hidden="true"
      onPointerLeave={() => hover(null)}
    >
      <circle cx={LEFT} cy={TOP} r="3" fill="var(--ink)" />
      {order.map((each) => (
        <path key={each} class={classes("way", tree.chosen[each], on.has(each))} d={wayTo(tree, places, each)} />
      ))}
      {shown.map((each) => (
        <Node
          key={each}
          {...{ tree, places, node: each, on: on.has(each), selected: each === selected, hover, open }}
        />
      ))}
    </svg>
  );
}

function weight(tree: PageTree, on: Set<number>, node: number): number {
  return on.has(node) ? 2 : tree.chosen[node] ? 1 : 0;
}

function classes(name: string, chosen: boolean | undefined, on: boolean): string {
  return `${name}${chosen ? " chosen" : ""}${on ? " on" : ""}`;
}

/** From the parent's right edge along its row, down in the gap, and on to the node. */
function wayTo(tree: PageTree, places: Places, node: number): string {
  const parent = parentOf(tree, node);
  const { x, wide, y, size } = places;
  const [x0, y0] = parent < 0 ? [LEFT + 5, TOP] : [x[parent]! + wide[parent]! + 4, y(parent)];
  const [x1, y1] = [x[node]! - 4, y(node)];
  if (y1 === y0) return `M${x0} ${y0}H${x1}`;
  const turn = Math.max(x0, x[node]! - size.gap / 2 - 2);
  const round = Math.min(6, (y1 - y0) / 2, Math.max(0, x1 - turn));
  const down = `M${x0} ${y0}H${turn - Math.min(round, turn - x0)}Q${turn} ${y0} ${turn} ${y0 + round}V${y1 - round}`;
  return `${down}Q${turn} ${y1} ${turn + round} ${y1}H${x1}`;
}

interface NodeProps {
  tree: PageTree;
  places: Places;
  node: number;
  on: boolean;
  selected: boolean;
  hover(node: number): void;
  open(node: number): void;
}

function Node({ tree, places, node, on, selected, hover, open }: NodeProps) {
  const { size, label } = places;
  const [x, y, wide] = [places.x[node]!, places.y(node), places.wide[node]!];
  const ended = tree.ended[node];
  const chosen = tree.chosen[node];
  return (
    <g class={classes("node", chosen, on)} onPointerEnter={() => hover(node)} onClick={() => open(node)}>
      <rect class="touch" x={x - 6} y={y - 13} width={wide + 12} height={size.parts ? 42 : 22} />
      {selected && <rect class="mark" x={x - 4} y={y - 11} width={wide + 8} height={22} rx="4" />}
      {ended ? (
        <rect class="end" x={x} y={y - SQUARE / 2} width={SQUARE} height={SQUARE} />
      ) : (
        <text x={x} y={y} direction="ltr">
          {label[node]}
        </text>
      )}
      {size.parts && (
        <text class="part" x={x} y={y + 19}>
          {sumOf(tree, node)}
        </text>
      )}
    </g>
  );
}
