// Timeline: visits or reviews on a line, the weight of each as a bar above it, and what lies in the one that is chosen.
import { useMemo, useRef, useState } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { lineOf, number, short } from "../labels";
import { type Look, lookAt, useLoaded } from "../look";
import { Picker, Waiting } from "../parts";
import { textWidth } from "../pen";
import { useSay } from "../readout";
import { useColours } from "../theme";
import type { LoadedTrace, PageAxis, PageMap, PageTrace, Part, View, ViewProps } from "../types";
import { ShadedText, wordingOf, wordOf } from "./document_text";
import { Answer, Bar, Choices, halfOf, hasAnswer, keyKind, largestOf, mapAt, type Nested, nested, opening, serving, useFitting } from "./sources";
import { placesOf, room, stars, timesOf } from "./timeline_layout";
import "./document.css";
import "./graph.css";
import "./timeline.css";

function fits(map: PageMap, trace: PageTrace): boolean {
  return ["visits", "reviews"].includes(keyKind(trace, map));
}

export const timeline: View = {
  id: "timeline",
  front: (trace) => !trace.outputs, // not of a text that is written step by step
  title: "Timeline",
  about: "One mark a visit or review: the higher its bar, the more it was looked at.",
  picks: true,
  serves: serving(fits),
  Component: Timeline,
};

function Timeline(props: ViewProps) {
  const { trace } = props;
  const { value: outer, error, sites } = useFitting(props, fits);
  const axis = outer?.map.key ?? "";
  const within = mapAt(trace, (map) => trace.axes[map.key]?.parent === axis);
  const { value: inner, error: broken } = useLoaded(async () => within && lookAt(trace, within.site, null), [within], trace);
  if (!outer || (within && !inner)) return <Waiting error={error ?? broken} />;
  return <TimelineOf {...props} outer={outer} inner={inner} sites={sites} />;
}

type TimelineProps = ViewProps & { outer: Look; inner: Look | null; sites: string[] };

function TimelineOf({ trace, state, set, outer, inner, sites }: TimelineProps) {
  const axis = outer.key;
  const nest = useMemo(() => nested(outer, inner, state.step), [outer, inner, state.step]);
  const weights = useMemo(() => Float64Array.from(axis.labels, (_, i) => nest.outerWeight(i)), [nest]);
  const times = useMemo(() => timesOf(axis), [axis]);
  const byWeight = state.more["timeline.sort"] === "weight";
  const order = useMemo(() => {
    const all = axis.labels.map((_, i) => i);
    const size = (i: number) => (Number.isNaN(weights[i]!) ? -Infinity : weights[i]!);
    return byWeight ? all.sort((one, other) => size(other) - size(one)) : times ? all.sort((one, other) => times[one]! - times[other]!) : all;
  }, [weights, byWeight, times]);
  const strongest = largestOf(weights).at;
  const chosen = state.key ?? strongest;
  const active = state.hover?.key ?? -1;
  const [word, point] = useState<Part[] | null>(null);
  useSay(word ?? said(outer, trace, state.step, weights, active >= 0 ? active : chosen, active < 0 && state.key === null));
  const choices = [
    { value: "time", label: axis.times?.length ? "time" : "order" },
    { value: "weight", label: "weight" },
  ];
  return (
    <Figure
      name="timeline"
      table={tableOf(axis, weights, outer.weights.exact)}
      controls={
        <>
          <Choices look={outer} sites={sites} state={state} set={set} />
          <Picker label="by" value={byWeight ? "weight" : "time"} choices={choices} pick={(sort) => set({ more: { "timeline.sort": sort } })} />
        </>
      }
      caption={<Caption outer={outer} step={state.step} times={times !== null && !byWeight} inner={inner !== null} />}
    >
      <Line axis={axis} order={order} weights={weights} times={byWeight ? null : times} exact={outer.weights.exact} chosen={chosen} active={active} hover={(key) => set({ hover: key === null ? null : { step: state.step, key } })} pick={(key) => set({ key, hover: null })} />
      <div class={hasAnswer(trace.about) ? "beside" : "beside alone"}>
        {chosen >= 0 && chosen < axis.labels.length ? <Inside axis={axis} at={chosen} nest={nest} weight={weights[chosen]!} showing={state} point={point} /> : <span />}
        <Answer about={trace.about} />
      </div>
    </Figure>
  );
}

interface LineProps {
  axis: PageAxis;
  order: number[];
  weights: Float64Array;
  times: number[] | null;
  exact: boolean;
  chosen: number;
  active: number;
  hover(position: number | null): void;
  pick(position: number | null): void;
}

const HIGH = 150; // pixels of the highest bar
const TOP = 22;
const THICK = 18;

/** What stands under a mark: when it was, or how it was rated. */
function under(axis: PageAxis, i: number): string {
  const rating = axis.ratings?.[i];
  if (axis.times?.[i]) return short(axis.times[i], 16);
  return typeof rating === "number" ? `${number(rating, true, Number.isInteger(rating) ? 0 : 1)} ★` : short(axis.labels[i] ?? String(i + 1), 12);
}

function Line(props: LineProps) {
  const { axis, order, weights, times, exact, chosen, active, hover, pick } = props;
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const seen = useWidth(box);
  // Below a few pixels a mark cannot be hit: the line then scrolls.
  const width = Math.max(seen, order.length * 7);
  const gap = Math.min(THICK + 4, (width - 60) / Math.max(1, order.length));
  const x = useMemo(() => placesOf(order, times, 30, width - 30, gap), [order, times, width]);
  const thick = Math.max(3, Math.min(THICK, gap - 3));
  const largest = largestOf(weights).value || 1;
  const place = order.indexOf(active >= 0 ? active : chosen);
  const dates = useMemo(() => room(x, order.map((i) => textWidth(under(axis, i))), place, width), [x, place, axis]);
  const numbers = useMemo(() => room(x, order.map((i) => textWidth(number(weights[i], exact))), place, width), [x, place, weights]);
  const base = TOP + HIGH;
  const tall = (i: number) => (Number.isFinite(weights[order[i]!]!) ? (Math.max(0, weights[order[i]!]!) / largest) * HIGH : HIGH);
  // A number that would lie on its neighbour's bar stays away, and all do where marks are thin; the chosen one is always there.
  const free = (i: number) => i === place || (gap > 15 && [i - 1, i + 1].every((j) => !(j in x) || tall(j) < tall(i) || Math.abs(x[j]! - x[i]!) > (thick + 30) / 2));
  return (
    <div ref={box} class="timeline" role="group" tabIndex={0} aria-label={`${order.length} marks on a line; arrow keys move, Escape lets go`} style={{ overflowX: width > seen ? "auto" : undefined }} onPointerLeave={() => hover(null)} onKeyDown={(event) => keyed(event, props)}>
      <svg width={width} height={base + 34} viewBox={`0 0 ${width} ${base + 34}`} aria-hidden="true">
        <path d={`M0 ${base + 0.5}H${width}`} stroke={colours.line} />
        {order.map((position, i) => {
          const weight = weights[position]!;
          const real = Number.isFinite(weight);
          const height = tall(i);
          const now = position === chosen || position === active;
          const fill = position === chosen ? colours.accent : position === active ? colours.ink : colours.shade(0.35 + 0.4 * (real ? weight / largest : 0));
          return (
            <g key={position} class="stop" onPointerEnter={() => hover(position)} onClick={() => pick(position)}>
              <rect x={x[i]! - gap / 2} y={0} width={gap} height={base + 34} fill="transparent" />
              {real ? <rect x={x[i]! - thick / 2} y={base - height} width={thick} height={height} rx={2} fill={fill} /> : <rect x={x[i]! - thick / 2} y={TOP} width={thick} height={HIGH} fill="none" stroke={colours.quiet} stroke-dasharray="3 3" />}
              <circle cx={x[i]} cy={base + 0.5} r={Math.min(4, thick / 2)} fill={now ? fill : colours.quiet} />
              {numbers.shown[i] && free(i) && (
                <text class={now ? "now" : ""} x={numbers.at[i]} y={base - height - 7} text-anchor="middle">
                  {number(weight, exact)}
                </text>
              )}
              {dates.shown[i] && (
                <text class={now ? "now" : ""} x={dates.at[i]} y={base + 24} text-anchor="middle">
                  {under(axis, position)}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const MOVES: Record<string, number> = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

function keyed(event: KeyboardEvent, { order, chosen, pick }: LineProps): void {
  if (event.altKey || event.ctrlKey || event.metaKey || !order.length) return;
  const at = order.indexOf(chosen);
  const move = MOVES[event.key];
  if (move) pick(order[Math.max(0, Math.min(order.length - 1, at + move))]!);
  else if (event.key === "Home") pick(order[0]!);
  else if (event.key === "End") pick(order.at(-1)!);
  else if (event.key === "Enter") pick(chosen);
  else if (event.key === "Escape") pick(null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

interface InsideProps {
  axis: PageAxis;
  at: number;
  nest: Nested;
  weight: number;
  showing: ViewProps["state"];
  point(parts: Part[] | null): void;
}

/** What lies in the chosen one: its words as text, its codes as a list. */
function Inside({ axis, at, nest, weight, showing, point }: InsideProps) {
  const inner = nest.inner;
  const rating = axis.ratings?.[at];
  const label = axis.labels[at] ?? "";
  const prose = !!inner?.key.text;
  return (
    <section class="inside" aria-label="the chosen one">
      <h2>
        {!prose && <bdi dir="auto">{short(label)}</bdi>}
        {axis.times?.[at] && <span>{short(axis.times[at])}</span>}
        {typeof rating === "number" && <span>{`${stars(rating)} ${number(rating, true, 1)}`}</span>}
        <span>{`weight ${number(weight, nest.outer?.weights.exact)}`}</span>
      </h2>
      {inner && (prose ? <Words inner={inner} at={at} nest={nest} showing={showing} point={point} /> : <Codes inner={inner} at={at} nest={nest} />)}
    </section>
  );
}

function Words({ inner, at, nest, showing, point }: { inner: Look } & Pick<InsideProps, "at" | "nest" | "showing" | "point">) {
  const { key, weights } = inner;
  const line = useMemo(() => lineOf(key, showing), [key, showing.special, showing.words]);
  const wording = useMemo(() => wordingOf(key), [key]);
  const shares = useMemo(
    () =>
      Float64Array.from(line.from, (first, g) => {
        let sum = 0;
        for (let i = first; i < line.to[g]!; i++) sum += key.within[i] === at ? nest.innerWeight(i) : 0;
        return sum;
      }),
    [line, nest, at],
  );
  const strengths = useMemo(() => shares.map((share) => share / (largestOf(shares).value || 1)), [shares]);
  const own = Array.from(line.from.keys()).filter((g) => key.within[line.from[g]!] === at);
  const [from, to] = [own[0] ?? 0, (own.at(-1) ?? -1) + 1];
  const hover = (event: Event) => {
    const g = wordOf(event);
    point(g < 0 ? null : ["Within it, ", { token: short(wording.text(line.from[g]!, line.to[g]!), 60) }, ` got ${number(shares[g], weights.exact)}.`]);
  };
  return (
    <p class="prose" dir="auto" onPointerOver={hover} onPointerLeave={() => point(null)}>
      <ShadedText axis={key} wording={wording} line={line} from={from} to={to} strengths={strengths} active={-1} locked={-1} />
    </p>
  );
}

const MOST_CODES = 200;

function Codes({ inner, at, nest }: { inner: Look; at: number; nest: Nested }) {
  const { key, weights } = inner;
  const own = key.labels.flatMap((label, i) => (key.within[i] === at ? [{ label, i, weight: nest.innerWeight(i) }] : []));
  const most = Math.max(0, ...own.map(({ weight }) => weight).filter(Number.isFinite)) || 1;
  if (!own.length) return <p class="empty">Nothing was written down here.</p>;
  return (
    <ol class="nearest">
      {own.slice(0, MOST_CODES).map(({ label, i, weight }) => (
        <li key={i}>
          <div>
            <bdi dir="auto">{short(label)}</bdi>
            <Bar share={weight / most} />
            <span>{number(weight, weights.exact)}</span>
          </div>
        </li>
      ))}
      {own.length > MOST_CODES && <li>{`… and ${own.length - MOST_CODES} more`}</li>}
    </ol>
  );
}

/** "*emergency* of 2022-10-30" */
function called(axis: PageAxis, at: number): Part[] {
  const label: Part = { token: short(axis.labels[at] ?? String(at + 1), 48) };
  return axis.times?.[at] ? [label, ` of ${short(axis.times[at])}`] : [label];
}

function said(outer: Look, trace: LoadedTrace, step: number, weights: Float64Array, at: number, most: boolean): Part[] {
  if (at < 0 || at >= weights.length) return weights.length ? ["It looked at nothing that can be shown."] : [];
  const why = opening(outer, trace.about, step);
  const weight = weights[at]!;
  const name = called(outer.key, at);
  if (!Number.isFinite(weight)) return [...why, "gave ", ...name, " a weight that is not a number."];
  const share = number(weight, outer.weights.exact);
  return most ? [...why, "looked most at ", ...name, ` (${share}).`] : [...why, "gave ", ...name, ` a weight of ${share}.`];
}

function tableOf(axis: PageAxis, weights: Float64Array, exact: boolean): Table {
  const columns = [...(axis.times?.length ? ["time"] : []), ...(axis.ratings?.length ? ["rating"] : []), "weight"];
  return {
    corner: axis.kind,
    columns,
    rows: axis.labels.length,
    rowLabel: (row) => axis.labels[row] ?? "",
    cell(row, column) {
      if (columns[column] === "time") return short(axis.times?.[row] ?? "–", 40);
      return columns[column] === "rating" ? number(axis.ratings?.[row], true, 1) : number(weights[row], exact, 3);
    },
  };
}

function Caption({ outer, step, times, inner }: { outer: Look; step: number; times: boolean; inner: boolean }) {
  const { weights, map, key } = outer;
  const row = step - map.step;
  return (
    <>
      {row >= 0 && row < weights.rows && `Half of the weight lies on ${halfOf(weights, row)} of ${weights.columns} ${key.kind}. `}
      {"The higher a bar, the larger its weight."}
      {times && " Marks stand where they happened in time, moved apart where they would touch."}
      {inner && " Choose one to see what was looked at within it."}
      {outer.averaged && ` This is the mean of ${outer.heads.length} heads.`}
    </>
  );
}
