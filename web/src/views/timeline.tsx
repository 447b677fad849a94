// Timeline: visits or reviews on a line, the weight of each as a bar above it, and what lies in the one that is chosen; or, where
// codes in visits have contributions to an outcome, those.
import { useMemo, useState } from "preact/hooks";
import { evenly } from "../grouping";
import { Figure, type Table } from "../figure";
import { lineOf, number, short } from "../labels";
import { type Look, lookAt, useLoaded } from "../look";
import { Picker, Waiting } from "../parts";
import { useSay } from "../readout";
import type { LoadedTrace, PageAxis, PageMap, PageTrace, Part, View, ViewProps } from "../types";
import { ShadedText, wordingOf, wordOf } from "./document_text";
import {
  Answer,
  Bar,
  Choices,
  halfOf,
  hasAnswer,
  keyKind,
  largestOf,
  mapAt,
  type Nested,
  nested,
  opening,
  serving,
  useFitting,
} from "./sources";
import { contributed, ContributionLine, contributionsOf } from "./timeline_contributions";
import { stars, timesOf } from "./timeline_layout";
import { Line } from "./timeline_line";
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
  const { value: inner, error: broken } = useLoaded(
    async () => within && lookAt(trace, within.site, null),
    [within],
    trace,
  );
  const { value: found, error: lost } = useLoaded(
    async () => (contributed(trace, axis) ? contributionsOf(trace, axis) : null),
    [axis],
    trace,
  );
  if (contributed(trace, axis) && !lost)
    return found ? <ContributionLine {...props} found={found} /> : <Waiting error={error} />;
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
  const order = useMemo(() => orderOf(weights, byWeight, times), [weights, byWeight, times]);
  const strongest = largestOf(weights).at;
  const chosen = state.key ?? strongest;
  const active = state.hover?.key ?? -1;
  const [word, point] = useState<Part[] | null>(null);
  useSay(
    word ?? said(outer, trace, state.step, weights, active >= 0 ? active : chosen, active < 0 && state.key === null),
  );
  return (
    <Figure
      name="timeline"
      table={tableOf(axis, weights, outer.weights.exact)}
      controls={
        <>
          <Choices look={outer} sites={sites} state={state} set={set} />
          <By weight={byWeight} timed={!!axis.times?.length} set={set} />
        </>
      }
      caption={<Caption outer={outer} step={state.step} times={times !== null && !byWeight} inner={inner !== null} />}
    >
      <Line
        axis={axis}
        order={order}
        weights={weights}
        times={byWeight ? null : times}
        exact={outer.weights.exact}
        chosen={chosen}
        active={active}
        hover={(key) => set({ hover: key === null ? null : { step: state.step, key } })}
        pick={(key) => set({ key, hover: null })}
      />
      <div class={hasAnswer(trace.about) ? "beside" : "beside alone"}>
        {chosen >= 0 && chosen < axis.labels.length ? (
          <Inside axis={axis} at={chosen} nest={nest} weight={weights[chosen]!} showing={state} point={point} />
        ) : (
          <span />
        )}
        <Answer about={trace.about} />
      </div>
    </Figure>
  );
}

/** Positions as they stand on the line: the heaviest first, or by time where that is known. */
function orderOf(weights: Float64Array, byWeight: boolean, times: number[] | null): number[] {
  const all = Array.from(weights.keys());
  const size = (i: number) => (Number.isNaN(weights[i]!) ? -Infinity : weights[i]!);
  if (byWeight) return all.sort((one, other) => size(other) - size(one));
  return times ? all.sort((one, other) => times[one]! - times[other]!) : all;
}

function By({ weight, timed, set }: { weight: boolean; timed: boolean; set: ViewProps["set"] }) {
  const choices = [
    { value: "time", label: timed ? "time" : "order" },
    { value: "weight", label: "weight" },
  ];
  const pick = (sort: string) => set({ more: { "timeline.sort": sort } });
  return <Picker label="by" value={weight ? "weight" : "time"} choices={choices} pick={pick} />;
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
      {inner &&
        (prose ? (
          <Words inner={inner} at={at} nest={nest} showing={showing} point={point} />
        ) : (
          <Codes inner={inner} at={at} nest={nest} />
        ))}
    </section>
  );
}

function Words({
  inner,
  at,
  nest,
  showing,
  point,
}: { inner: Look } & Pick<InsideProps, "at" | "nest" | "showing" | "point">) {
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
    point(
      g < 0
        ? null
        : [
            "Within it, ",
            { token: short(wording.text(line.from[g]!, line.to[g]!), 60) },
            ` got ${number(shares[g], weights.exact)}.`,
          ],
    );
  };
  return (
    <p class="prose" dir="auto" onPointerOver={hover} onPointerLeave={() => point(null)}>
      <ShadedText
        axis={key}
        wording={wording}
        line={line}
        from={from}
        to={to}
        strengths={strengths}
        active={-1}
        locked={-1}
      />
    </p>
  );
}

const MOST_CODES = 200;

function Codes({ inner, at, nest }: { inner: Look; at: number; nest: Nested }) {
  const { key, weights } = inner;
  const own = key.labels.flatMap((label, i) =>
    key.within[i] === at ? [{ label, i, weight: nest.innerWeight(i) }] : [],
  );
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
  const alike = most ? evenly(weights, outer.weights.exact) : 0;
  if (alike) return [...why, `looked at ${alike} ${outer.key.kind} alike (${share} each).`];
  return most
    ? [...why, "looked most at ", ...name, ` (${share}).`]
    : [...why, "gave ", ...name, ` a weight of ${share}.`];
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
      {row >= 0 &&
        row < weights.rows &&
        `Half of the weight lies on ${halfOf(weights, row)} of ${weights.columns} ${key.kind}. `}
      {"The higher a bar, the larger its weight."}
      {times && " Marks stand where they happened in time, moved apart where they would touch."}
      {inner && " Choose one to see what was looked at within it."}
      {outer.averaged > 0 && ` This is the mean of ${outer.averaged} heads.`}
    </>
  );
}
