// Beam: every way the search tried, left to right. The chosen path is the straight dark line; the others left it.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number, short } from "../labels";
import { worded } from "../look";
import { Token, useSay } from "../readout";
import type { Live, LoadedTrace, PageAxis, PageTree, Part, State, View, ViewProps } from "../types";
import { SAVED } from "../what_if_hand";
import { sessionOf, sessionWith } from "../what_if";
import { type Layout, layoutOf, neighbour, ownLogProb, parentOf, pathTo, textOf } from "./beam_layout";
import { BeamDrawing, placesOf, type Places, SIZES } from "./beam_drawing";
import "./beam.css";

export const beam: View = {
  id: "beam",
  title: "Beam",
  about: "Every way the search tried: the dark line is what it chose.",
  // A greedy search tries one way; at its end a second token is in the tree, and that is no choice to look at.
  serves: (trace) => (trace.tree?.chosen.filter((is) => !is).length ?? 0) > 1,
  picks: true,
  Component: Beam,
};

function Beam({ trace, state, set, live }: ViewProps) {
  const tree = trace.tree!;
  const written = trace.outputs?.axis ?? trace.maps.filter((map) => map.query !== map.key).at(-1)?.query ?? "";
  const axis: PageAxis | undefined = trace.axes[written];
  const layout = useMemo(() => layoutOf(tree), [tree]);
  const chosen = useMemo(() => tree.chosen.flatMap((is, node) => (is ? [node] : [])), [tree]);
  // A prompt stands before what was written: the last of the axis is the last of the path.
  const first = Math.max(0, (axis?.labels.length ?? chosen.length) - chosen.length);
  const [hovered, hover] = useState<number | null>(null);
  // A node that was picked stays picked until the step or the trace changes under it.
  const [at, of, kept] = String(state.more["beam.node"] ?? "")
    .split(" ")
    .map(Number);
  const picked =
    at === state.trace && of === state.step && kept !== undefined && tree.labels[kept] !== undefined ? kept : null;
  const node = picked ?? chosen[state.step - first] ?? chosen[0] ?? 0;
  const select = (to: number, change: Partial<State> = {}) => {
    const place = chosen.indexOf(to);
    const step = place < 0 ? state.step : first + place;
    set({ step, more: { "beam.node": `${state.trace} ${step} ${to}` }, ...change });
  };
  const open = (to: number) => select(to, tree.chosen[to] ? { view: "steps", key: null } : {});
  useSay(useMemo(() => saying(tree, axis, hovered ?? node), [tree, axis, hovered, node]));
  const [size, resize] = useState(1);
  const box = useRef<HTMLDivElement>(null);
  const room = useWidth(box);
  const places = useMemo(() => placesOf(tree, layout, SIZES[size]!, room), [tree, layout, size, room]);
  return (
    <Figure
      name="beam"
      table={tableOf(tree, axis)}
      controls={<Sizes size={size} resize={resize} />}
      caption={captionOf(tree, layout)}
    >
      <Stage {...{ box, tree, layout, places, node, hovered, hover, select, open }} />
      <Asks
        {...{ tree, axis, node, open, live, trace }}
        then={(place) => set({ view: "steps", step: first + place })}
      />
    </Figure>
  );
}

function Sizes({ size, resize }: { size: number; resize(size: number): void }) {
  return (
    <span>
      <button class="quiet" aria-label="smaller" disabled={size === 0} onClick={() => resize(size - 1)}>
        −
      </button>
      <button class="quiet" aria-label="larger" disabled={size === SIZES.length - 1} onClick={() => resize(size + 1)}>
        +
      </button>
    </span>
  );
}

interface StageProps {
  box: { current: HTMLDivElement | null };
  tree: PageTree;
  layout: Layout;
  places: Places;
  node: number;
  hovered: number | null;
  hover(node: number | null): void;
  select(node: number): void;
  open(node: number): void;
}

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];

function Stage({ box, tree, layout, places, node, hovered, hover, select, open }: StageProps) {
  const [seen, see] = useState({ left: 0, right: 2000 });
  const look = () => {
    const element = box.current;
    if (element) see({ left: element.scrollLeft - 400, right: element.scrollLeft + element.clientWidth + 400 });
  };
  useLayoutEffect(look, [places]);
  useLayoutEffect(() => reach(box.current, places, node), [node, places]);
  const key = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (MOVES.includes(event.key)) select(neighbour(tree, layout, node, event.key));
    else if (event.key === "Home") select(pathTo(tree, node)[0]!);
    else if (event.key === "End") select(endOf(layout, node));
    else if (event.key === "Enter") open(node);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const told =
    `beam search: ${tree.labels.length} nodes. Arrow keys move: left to what stood before, right to what came after, ` +
    "up and down to other branches; Enter opens the step.";
  return (
    <div
      class="beam"
      ref={box}
      tabIndex={0}
      role="application"
      aria-roledescription="tree"
      aria-label={told}
      onScroll={look}
      onKeyDown={key}
      {...usePan(box)}
    >
      <BeamDrawing {...{ tree, places, node: hovered ?? node, selected: node, hover, open, seen }} />
    </div>
  );
}

function endOf(layout: Layout, node: number): number {
  let at = node;
  for (let next = layout.children[at]?.[0]; next !== undefined; next = layout.children[at]?.[0]) at = next;
  return at;
}

/** Drag with a mouse to move about; fingers scroll by themselves. */
function usePan(box: { current: HTMLElement | null }) {
  const from = useRef<{ x: number; y: number; left: number; top: number } | null>(null);
  const moved = useRef(false);
  return {
    onPointerDown(event: PointerEvent) {
      const element = box.current;
      moved.current = false;
      if (element && event.pointerType === "mouse")
        from.current = { x: event.clientX, y: event.clientY, left: element.scrollLeft, top: element.scrollTop };
    },
    onPointerMove(event: PointerEvent) {
      if (!from.current || !event.buttons) return void (from.current = null);
      const [x, y] = [from.current.x - event.clientX, from.current.y - event.clientY];
      if (Math.hypot(x, y) > 4) moved.current = true;
      if (moved.current) box.current?.scrollTo(from.current.left + x, from.current.top + y);
    },
    // The end of a drag is no click on what happens to lie there.
    onClickCapture(event: MouseEvent) {
      if (moved.current) event.stopPropagation();
    },
  };
}

/** Scrolls so far that the node is in view, and no further. */
function reach(box: HTMLElement | null, places: Places, node: number): void {
  if (!box) return;
  const [x, y] = [places.x[node] ?? 0, places.y(node)];
  const margin = 60;
  if (x - margin < box.scrollLeft) box.scrollLeft = x - margin;
  else if (x + margin > box.scrollLeft + box.clientWidth) box.scrollLeft = x + margin - box.clientWidth;
  if (y - margin < box.scrollTop) box.scrollTop = y - margin;
  else if (y + margin > box.scrollTop + box.clientHeight) box.scrollTop = y + margin - box.clientHeight;
}

interface AsksProps {
  tree: PageTree;
  axis: PageAxis | undefined;
  node: number;
  open(node: number): void;
  live: Live | null;
  trace: LoadedTrace;
  then(step: number): void;
}

/** What can be done with the node that is selected: see its step, or make the model go its way. */
function Asks({ tree, axis, node, open, live, trace, then }: AsksProps) {
  const [busy, work] = useState(false);
  const [problem, blame] = useState<string | null>(null);
  const path = pathTo(tree, node);
  const prefix = textOf(
    path.map((each) => tree.labels[each]!),
    axis,
  );
  const force = async () => {
    work(true);
    blame(null);
    try {
      // Steps then says what was forced, beside what was written before, and takes it back.
      await live?.apply(sessionWith(sessionOf(trace), { prefix }));
      then(path.length - 1);
    } catch (error) {
      blame(worded(error));
    }
    work(false);
  };
  return (
    <div class="beam-asks" data-export="no">
      {tree.chosen[node] ? (
        <button onClick={() => open(node)}>see this step</button>
      ) : (
        <>
          <span>
            <Token text={short(prefix)} /> is not on the chosen path, so what it looked at was not kept.
          </span>
          <button disabled={!live || busy} title={live ? undefined : SAVED} onClick={force}>
            {busy ? "running …" : "force this beginning"}
          </button>
        </>
      )}
      {problem && <span role="alert">{problem}</span>}
    </div>
  );
}

/** "*2009-03*: *3* has probability 0.01, all up to it 0.01 (log −4.95); dropped here." */
function saying(tree: PageTree, axis: PageAxis | undefined, node: number): Part[] {
  const path = pathTo(tree, node).map((each) => tree.labels[each]!);
  const sum = tree.log_prob[node] ?? NaN;
  const fate = tree.chosen[node]
    ? tree.ended[node]
      ? "this is what it chose"
      : "on the chosen path"
    : fateOf(tree, node);
  const text = textOf(path, axis);
  const said: Part[] = text && path.length > 1 ? [{ token: short(text) }, ": "] : [];
  said.push(
    { token: short(tree.labels[node]!) },
    ` has probability ${number(Math.exp(ownLogProb(tree, node)))}, `,
    `all up to it ${number(Math.exp(sum))} (log ${number(sum)}); ${fate}.`,
  );
  return said;
}

function fateOf(tree: PageTree, node: number): string {
  if (tree.ended[node]) return "ended, and others were better";
  return tree.parent.includes(node) ? "not chosen in the end" : "dropped here";
}

function tableOf(tree: PageTree, axis: PageAxis | undefined): Table {
  const cells: ((node: number) => string)[] = [
    (node) => String(pathTo(tree, node).length),
    (node) =>
      short(
        textOf(
          pathTo(tree, parentOf(tree, node)).map((each) => tree.labels[each]!),
          axis,
        ),
        40,
      ),
    (node) => number(ownLogProb(tree, node), true, 3),
    (node) => number(tree.log_prob[node], true, 3),
    (node) => (tree.chosen[node] ? "chosen" : fateOf(tree, node)),
  ];
  return {
    corner: "token",
    columns: ["step", "after", "log p", "sum", "what became of it"],
    rows: tree.labels.length,
    rowLabel: (node) => tree.labels[node] ?? "",
    cell: (node, column) => cells[column]!(node),
  };
}

function captionOf(tree: PageTree, layout: Layout): string {
  const ended = tree.ended.filter(Boolean).length;
  const finished = ended
    ? ` ${ended} ${ended === 1 ? "way was" : "ways were"} written to the end (squares; the filled one is the output).`
    : "";
  return (
    "Each column is a step. Under a token is the log-probability of all that was written up to it: the less below " +
    "zero, the likelier. " +
    `${tree.labels.length} nodes in ${layout.columns} steps.${finished}`
  );
}
