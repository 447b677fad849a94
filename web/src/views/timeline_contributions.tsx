// What each code of each visit adds to an outcome's logit, above and below the line, and the risk after each visit.
import { useMemo, useRef, useState } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { short } from "../labels";
import { Picker } from "../parts";
import { textWidth } from "../pen";
import { useSay } from "../readout";
import { useColours } from "../theme";
import type { LoadedTrace, Matrix, PageAxis, PageTrace, Part, ViewProps } from "../types";
import { plus } from "./compare_difference";
import { Answer, hasAnswer } from "./sources";
import { placesOf, room, timesOf } from "./timeline_layout";

const [SIGNAL, RISK] = ["contributions", "risk"];
const CURVE = { top: 10, high: 54 };
const BARS = { top: 92, high: 170 };
const MOST_CODES = 200;

export interface Contributions {
  visits: PageAxis;
  codes: PageAxis;
  /** a row a code, a column an outcome */
  values: Matrix;
  /** a row a visit */
  risk: Matrix | null;
}

/** Whether the codes that lie in `axis` have contributions. */
export function contributed(trace: PageTrace, axis: string): boolean {
  const signal = trace.signals[SIGNAL!];
  return signal !== undefined && trace.axes[signal.axis]?.parent === axis;
}

export async function contributionsOf(trace: LoadedTrace, axis: string): Promise<Contributions | null> {
  const signal = trace.signals[SIGNAL!];
  const codes = signal && trace.axes[signal.axis];
  const [values, risk] = [await trace.signal(SIGNAL!), await trace.signal(RISK!)];
  const visits = trace.axes[axis];
  if (!codes || !values || !visits || values.rows !== codes.labels.length) return null;
  return { visits, codes, values, risk: risk && risk.rows === visits.labels.length ? risk : null };
}

/** Of one outcome: the codes of each visit with what they add, the largest addition and the largest subtraction. */
export function columnOf({ visits, codes, values }: Contributions, outcome: number) {
  const inside: { code: number; value: number }[][] = visits.labels.map(() => []);
  let [high, low, strongest, most] = [0, 0, -1, -1];
  codes.within.forEach((visit, code) => {
    const found = values.at(code, outcome);
    const value = Number.isFinite(found) ? found : 0;
    inside[visit]?.push({ code, value });
    [high, low] = [Math.max(high, value), Math.min(low, value)];
    if (Math.abs(value) > most) [most, strongest] = [Math.abs(value), visit];
  });
  return { inside, high, low, strongest };
}

type Props = ViewProps & { found: Contributions };

export function ContributionLine({ trace, state, set, found }: Props) {
  const { visits, codes, values } = found;
  const outcome = Math.min(Number(state.more["timeline.outcome"] ?? 0) || 0, values.columns - 1);
  const column = useMemo(() => columnOf(found, outcome), [found, outcome]);
  const named = namesOf(trace, values.columns);
  const chosen = state.key ?? column.strongest;
  const [code, point] = useState(-1);
  useSay(said(found, column.inside[chosen] ?? [], outcome, chosen, code));
  const pick = (value: string) => set({ more: { "timeline.outcome": value } });
  const choices = named.map((label, i) => ({ value: String(i), label: short(label, 40) }));
  return (
    <Figure
      name="timeline"
      table={tableOf(found, named)}
      controls={named.length > 1 && <Picker label="of" value={String(outcome)} choices={choices} pick={pick} />}
      caption={
        "A bar is what a code adds to the logit: above the line it raises the risk, below it lowers it. " +
        (found.risk ? "The curve is the risk after each visit." : "")
      }
    >
      <Drawing
        found={found}
        column={column}
        outcome={outcome}
        chosen={chosen}
        pick={(key) => set({ key })}
        point={point}
      />
      <div class={hasAnswer(trace.about) ? "beside" : "beside alone"}>
        <section class="inside" aria-label="the chosen one">
          <h2>
            <bdi dir="auto">{short(visits.labels[chosen] ?? "")}</bdi>
            {visits.times?.[chosen] && <span>{short(visits.times[chosen])}</span>}
            {found.risk && chosen >= 0 && <span>{`risk ${found.risk.at(chosen, outcome).toFixed(3)}`}</span>}
          </h2>
          <ol class="nearest signed">
            {(column.inside[chosen] ?? []).slice(0, MOST_CODES).map(({ code, value }) => (
              <li key={code}>
                <div>
                  <bdi dir="auto">{short(codes.labels[code] ?? "", 60)}</bdi>
                  <span>{plus(value, true)}</span>
                </div>
              </li>
            ))}
          </ol>
        </section>
        <Answer about={trace.about} />
      </div>
    </Figure>
  );
}

interface DrawingProps {
  found: Contributions;
  column: ReturnType<typeof columnOf>;
  outcome: number;
  chosen: number;
  pick(visit: number): void;
  point(code: number): void;
}

function Drawing({ found, column, outcome, chosen, pick, point }: DrawingProps) {
  const { visits, risk } = found;
  const { inside, high, low } = column;
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const seen = useWidth(box);
  const count = visits.labels.length;
  const width = Math.max(seen, count * 9);
  const order = useMemo(() => Array.from({ length: count }, (_, i) => i), [count]);
  const gap = Math.min(64, (width - 80) / Math.max(1, count));
  const x = useMemo(() => placesOf(order, timesOf(visits), 40, width - 40, gap), [order, visits, width]);
  const dates = useMemo(() => {
    const widths = order.map((i) => textWidth(under(visits, i)));
    return room(x, widths, chosen, width);
  }, [x, chosen]);
  const span = high - low || 1;
  const base = BARS.top + (BARS.high * high) / span;
  const bottom = BARS.top + BARS.high + 8;
  const at = (share: number) => CURVE.top + CURVE.high * (1 - share);
  const keyed = (event: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    pick(Math.max(0, Math.min(count - 1, chosen + move)));
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={box}
      class="timeline"
      role="group"
      tabIndex={0}
      aria-label={`${count} visits on a line; arrow keys move`}
      style={{ overflowX: width > seen ? "auto" : undefined }}
      onPointerLeave={() => point(-1)}
      onKeyDown={keyed}
    >
      <svg width={width} height={bottom + 24} viewBox={`0 0 ${width} ${bottom + 24}`} aria-hidden="true">
        {risk && (
          <>
            <path d={`M30 ${at(0) + 0.5}H${width}M30 ${at(1) + 0.5}H${width}`} stroke={colours.line} />
            <text x={24} y={at(0) + 4} text-anchor="end">
              0
            </text>
            <text x={24} y={at(1) + 4} text-anchor="end">
              1
            </text>
            <polyline
              points={order.map((i) => `${x[i]},${at(risk.at(i, outcome))}`).join(" ")}
              fill="none"
              stroke={colours.accent}
              stroke-width={1.5}
            />
            {order.map((i) => (
              <circle key={i} cx={x[i]} cy={at(risk.at(i, outcome))} r={i === chosen ? 4 : 2.5} fill={colours.accent} />
            ))}
          </>
        )}
        <path d={`M30 ${base + 0.5}H${width}`} stroke={colours.quiet} />
        {order.map((visit) => {
          const codes = inside[visit]!;
          const thick = Math.max(1, Math.min(14, (gap - 4) / Math.max(1, codes.length)));
          const left = x[visit]! - (thick * codes.length) / 2;
          return (
            <g key={visit} class="stop" onClick={() => pick(visit)}>
              <rect x={x[visit]! - gap / 2} y={0} width={gap} height={bottom + 24} fill="transparent" />
              {codes.map(({ code, value }, i) => {
                const tall = (BARS.high * Math.abs(value)) / span;
                return (
                  <rect
                    key={code}
                    x={left + i * thick}
                    y={value > 0 ? base - tall : base}
                    width={Math.max(1, thick - 1)}
                    height={Math.max(0.5, tall)}
                    fill={colours.signed(Math.sign(value) * (visit === chosen ? 1 : 0.7))}
                    onPointerEnter={() => point(code)}
                  />
                );
              })}
              {dates.shown[visit] && (
                <text class={visit === chosen ? "now" : ""} x={dates.at[visit]} y={bottom + 16} text-anchor="middle">
                  {under(visits, visit)}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function under(visits: PageAxis, i: number): string {
  return short(visits.times?.[i] ?? visits.labels[i] ?? String(i + 1), 16);
}

function namesOf(trace: LoadedTrace, columns: number): string[] {
  const named = (trace.about as { outcomes?: unknown }).outcomes;
  return Array.from({ length: columns }, (_, i) => {
    const name: unknown = Array.isArray(named) ? named[i] : undefined;
    return typeof name === "string" ? name : `outcome ${i + 1}`;
  });
}

function said(
  { visits, codes, values }: Contributions,
  inside: { code: number; value: number }[],
  outcome: number,
  chosen: number,
  code: number,
): Part[] {
  const largest = [...inside].sort((one, other) => Math.abs(other.value) - Math.abs(one.value))[0];
  const shown = code >= 0 ? code : (largest?.code ?? -1);
  if (shown < 0) return [];
  const visit = code >= 0 ? (codes.within[code] ?? chosen) : chosen;
  const value = plus(values.at(shown, outcome), values.exact);
  const when = visits.times?.[visit] ?? visits.labels[visit] ?? "";
  return [{ token: short(codes.labels[shown] ?? "", 48) }, ` of ${short(when)} adds ${value} to the logit.`];
}

function tableOf({ visits, codes, values }: Contributions, named: string[]): Table {
  return {
    corner: "code",
    columns: ["visit", ...named],
    rows: codes.labels.length,
    rowLabel: (row) => codes.labels[row] ?? "",
    cell(row, column) {
      const visit = codes.within[row] ?? -1;
      if (column === 0) return short(visits.times?.[visit] ?? visits.labels[visit] ?? "–", 40);
      return plus(values.at(row, column - 1), values.exact);
    },
  };
}
