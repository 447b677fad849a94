// Truth: how far to trust these weights. One sentence, then the curves behind it; or, plainly, that nobody tested them.
import { useMemo, useRef, useState } from "preact/hooks";
import { carried } from "../carried";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number, short, spoken } from "../labels";
import { textWidth } from "../pen";
import { useSay } from "../readout";
import type { Faithfulness, PageTrace, Part, View, ViewProps } from "../types";
import { chartOf, finite, type Chart, type Curve } from "./truth_chart";
import "./truth.css";

export const truth: View = {
  id: "truth",
  title: "Truth",
  about: "How far to trust these weights.",
  serves: (trace) => trace.maps.length > 0,
  picks: true,
  scrubs: () => false,
  Component: Truth,
};

const CAPTION =
  "Each curve hides another choice of positions; the same output is asked for throughout. " +
  "The further the dark curve falls below the others, the more these weights say.";

/** What a trace says of its weights, as far as it can be read: it may come from anywhere. */
function foundIn(trace: PageTrace): Faithfulness | null {
  const found = trace.about.faithfulness;
  if (!found || typeof found !== "object" || typeof found.sentence !== "string") return null;
  const curves = (Array.isArray(found.curves) ? found.curves : []).filter(
    (curve) => Array.isArray(curve?.x) && Array.isArray(curve?.y),
  );
  return { sentence: found.sentence, figures: found.figures ?? {}, curves };
}

function Truth({ trace, live }: ViewProps) {
  const [measured, tell] = useState(0);
  const found = useMemo(() => foundIn(trace), [trace, measured]);
  return found ? <Tested found={found} /> : <Untested trace={trace} live={live} then={() => tell(measured + 1)} />;
}

function Untested({ trace, live, then }: Pick<ViewProps, "trace" | "live"> & { then(): void }) {
  useSay([]);
  return (
    <div class="empty">
      <p>Nobody has tested these weights: it was not measured for this page.</p>
      <p>
        That a model looked somewhere does not prove that it went by what it saw. The test is to hide what it looked at
        most and see whether its output becomes less likely, more than when anything else is hidden.
        {!live && " “saccade view RUN INPUT --truth --out page.html” makes a page that holds it."}
      </p>
      {live && carried.asking && <carried.asking.Measuring trace={trace} live={live} then={then} />}
    </div>
  );
}

function Tested({ found }: { found: Faithfulness }) {
  const groups = useMemo(() => grouped(found.curves), [found]);
  const [at, point] = useState<{ group: number; index: number } | null>(null);
  const here = at && groups[at.group];
  useSay(here && at ? saying(here, at.index) : []);
  return (
    <Figure name="truth" table={groups.length ? tableOf(groups) : null} caption={groups.length ? CAPTION : null}>
      <p class="verdict">{found.sentence}</p>
      <div class="tested">
        <div class="curves">
          {groups.map((curves, group) => (
            <Curves
              key={group}
              curves={curves}
              at={at?.group === group ? at.index : null}
              point={(index) => point(index === null ? null : { group, index })}
            />
          ))}
        </div>
        <dl class="figures">
          {Object.entries(found.figures).map(([name, figure]) => (
            <>
              <dt>{spoken(name)}</dt>
              <dd>
                {Number.isInteger(figure) ? String(figure) : number(Math.round(1000 * finite(figure)) / 1000, true, 3)}
              </dd>
            </>
          ))}
        </dl>
      </div>
    </Figure>
  );
}

/** Curves with the same axes share one picture. */
function grouped(curves: Curve[]): Curve[][] {
  const groups = new Map<string, Curve[]>();
  for (const curve of curves) {
    const name = JSON.stringify([curve.x_label, curve.y_label]);
    groups.set(name, [...(groups.get(name) ?? []), curve]);
  }
  return [...groups.values()];
}

function pointsOf(curves: Curve[]): number[] {
  return [...new Set(curves.flatMap((curve) => curve.x))].filter(Number.isFinite).sort((one, other) => one - other);
}

/** "4 positions hidden: most looked at 0.40, at random 0.99, …" */
function saying(curves: Curve[], index: number): Part[] {
  const x = pointsOf(curves)[index]!;
  const values = curves.flatMap((curve) =>
    curve.x.includes(x) ? [`${curve.name} ${number(finite(curve.y[curve.x.indexOf(x)]))}`] : [],
  );
  return [`${number(x, true, 0)} ${curves[0]!.x_label}: ${values.join(", ")}.`];
}

function Curves({ curves, at, point }: { curves: Curve[]; at: number | null; point(index: number | null): void }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const room = Math.min(
    width * 0.42,
    12 + Math.max(...curves.map((curve) => textWidth(short(curve.name, 32), 13, true))),
  );
  const chart = chartOf(curves, width, room);
  const points = pointsOf(curves);
  const key = (event: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const to = move
      ? Math.max(0, Math.min(points.length - 1, at === null ? (move > 0 ? 0 : points.length - 1) : at + move))
      : { Home: 0, End: points.length - 1 }[event.key];
    if (to === undefined && event.key !== "Escape") return;
    point(to ?? null);
    event.preventDefault();
    event.stopPropagation();
  };
  const moved = (event: PointerEvent) => {
    const x = event.clientX - (box.current?.getBoundingClientRect().left ?? 0);
    point(
      points.reduce(
        (best, each, i) => (Math.abs(chart.x(each) - x) < Math.abs(chart.x(points[best]!) - x) ? i : best),
        0,
      ),
    );
  };
  const names = curves.map((curve) => curve.name).join(", ");
  const told = `${curves[0]!.y_label} by ${curves[0]!.x_label}: ${names}. Left and right arrows read the points.`;
  return (
    <div
      ref={box}
      tabIndex={0}
      role="application"
      aria-roledescription="chart"
      aria-label={told}
      onKeyDown={key}
      onPointerMove={moved}
      onPointerLeave={() => point(null)}
    >
      <Drawing chart={chart} curves={curves} points={points} at={at} width={width} />
    </div>
  );
}

function Drawing({
  chart,
  curves,
  points,
  at,
  width,
}: {
  chart: Chart;
  curves: Curve[];
  points: number[];
  at: number | null;
  width: number;
}) {
  const { x, y, left, right, top, bottom, height } = chart;
  return (
    <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
      <text x={left - 32} y={top - 22}>
        {curves[0]!.y_label}
      </text>
      {chart.ticks.map((tick) => (
        <>
          <line class="axis" x1={left} x2={right} y1={y(tick)} y2={y(tick)} />
          <text x={left - 8} y={y(tick)} text-anchor="end">
            {number(tick, true, tick % 1 ? 1 : 0)}
          </text>
        </>
      ))}
      {chart.marks.map((mark) => (
        <text key={mark} x={x(mark)} y={bottom + 16} text-anchor="middle">
          {number(mark, true, mark % 1 ? 1 : 0)}
        </text>
      ))}
      <text x={(left + right) / 2} y={bottom + 38} text-anchor="middle">
        {curves[0]!.x_label}
      </text>
      {at !== null && <line class="now" x1={x(points[at]!)} x2={x(points[at]!)} y1={top} y2={bottom} />}
      {[...curves.keys()].reverse().map((i) => (
        <>
          <path
            class={i ? "curve" : "curve first"}
            d={chart.paths[i]}
            stroke-dasharray={["", "", "5 4", "1.5 3"][i % 4]}
          />
          {curves[i]!.x.map((each, j) =>
            Number.isFinite(finite(curves[i]!.y[j])) && Number.isFinite(each) ? (
              <circle class={i ? "dot" : "dot first"} cx={x(each)} cy={y(curves[i]!.y[j]!)} r={i ? 2.5 : 3.5} />
            ) : null,
          )}
          <text class={i ? "name" : "name first"} x={right + 12} y={chart.names[i]}>
            {short(curves[i]!.name, 32)}
          </text>
        </>
      ))}
    </svg>
  );
}

function tableOf(groups: Curve[][]): Table {
  const rows = groups.flatMap((curves) => pointsOf(curves).map((x) => ({ x, curves })));
  const all = groups.flat();
  return {
    corner: groups[0]![0]!.x_label,
    columns: all.map((curve) => curve.name),
    rows: rows.length,
    rowLabel: (row) => number(rows[row]!.x, true, 0),
    cell(row, column) {
      const place = rows[row]!.curves.includes(all[column]!) ? all[column]!.x.indexOf(rows[row]!.x) : -1;
      return place < 0 ? "" : number(finite(all[column]!.y[place]), true, 3);
    },
  };
}
