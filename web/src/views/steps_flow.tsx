// What stands beside the rows of Steps, as the model declares it: what the step begins with, ribbons that carry the weights
// into the context, what is computed from it, what was likely, and what goes on to the next step.
import { carried } from "../carried";
import { Equation, Maths, stateEquation } from "../equations";
import { letterOf, listed, movesFirst, startOf, written as placed } from "../flow";
import { isSpecial, number, short } from "../labels";
import { useColours } from "../theme";
import type { PageAxis } from "../types";
import { Strip } from "../vectors";
import { prefixOf } from "../what_if";
import type { Hand } from "../what_if_hand";
import { FIRST_ROW } from "./steps_layout";
import { betweenOf, type Decode, type Likely, valueAt } from "./steps_loading";
import type { Moment } from "./steps_moment";
import { Term } from "./steps_words";

/** Fewer pixels than this cannot be seen, and a thousand of them cost. */
const THINNEST = 0.4;

interface Band {
  key: number;
  path: string;
  share: number;
}

/** A band a row: as wide as its weight says, at the row (of its height) and at the context (of its). */
export function bandsOf(weights: number[], rowHeight: number, tall: number): Band[] {
  const total = weights.length * rowHeight;
  const clean = weights.map((weight) => (weight > 0 && Number.isFinite(weight) ? weight : 0));
  const sum = Math.max(
    1,
    clean.reduce((all, weight) => all + weight, 0),
  );
  let end = (total - tall) / 2;
  return clean.flatMap((weight, i) => {
    const thick = (weight / sum) * tall;
    const [top, middle] = [end, (i + 0.5) * rowHeight];
    end += thick;
    if (thick < THINNEST) return [];
    const half = Math.max(THINNEST, Math.min(1, weight) * rowHeight) / 2;
    const [high, low, bottom] = [middle - half, middle + half, top + thick];
    const path = `M0 ${high}C55 ${high} 45 ${top} 100 ${top}V${bottom}C45 ${bottom} 55 ${low} 0 ${low}Z`;
    return [{ key: i, path, share: weight / sum }];
  });
}

export function Ribbons({ moment, height, tall }: { moment: Moment; height: number; tall: number }) {
  const { shade } = useColours();
  const { keys } = moment.shown;
  const total = keys.length * height;
  const bands = bandsOf(
    keys.map((key) => moment.row[key]!),
    height,
    tall,
  );
  const hand = moment.weighed.by === "hand";
  return (
    <svg
      class="at-r ribbons"
      style={{ gridRow: `${FIRST_ROW} / span ${Math.max(1, keys.length)}`, height: `${total}px` }}
      viewBox={`0 0 100 ${total || 1}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {bands.map(({ key, path, share }) => (
        <path
          key={keys[key]}
          d={path}
          class={`${moment.lit === keys[key] ? "lit" : ""} ${hand ? "changed" : ""}`}
          fill={shade(0.3 + 0.45 * share)}
        />
      ))}
    </svg>
  );
}

interface VectorProps {
  place: "c" | "s" | "b";
  name: string;
  values: ArrayLike<number> | null;
  /** how many heads' vectors these are, one after the other */
  parts?: number;
  rows: number;
  tall: number;
  stacked: boolean;
  changed?: boolean;
}

/** A context or a state: one strip, beside the rows, or below them on a narrow page. */
export function Vector({ place, name, values, parts = 1, rows, tall, stacked, changed }: VectorProps) {
  return (
    <div
      class={`at-${place} vector${changed ? " changed" : ""}`}
      style={stacked ? undefined : { gridRow: `${FIRST_ROW} / span ${Math.max(1, rows)}` }}
    >
      {stacked && (
        <h2 class="steps-head">
          <Term column={place} />
        </h2>
      )}
      {values ? (
        <>
          <Strip values={values} name={name} parts={parts} height={stacked ? 20 : tall} down={!stacked} />
          <span class="size">{`${parts > 1 ? `${parts} × ` : ""}${values.length / parts} numbers`}</span>
        </>
      ) : (
        <span class="missing" style={stacked ? undefined : { height: `${tall}px` }}>
          not kept
        </span>
      )}
    </div>
  );
}

interface SideProps {
  decode: Decode;
  moment: Moment;
  rows: number;
  tall: number;
  stacked: boolean;
}

/** What a step has before it reads, as far as the page can show it: a vector that was kept, a word. */
export function startsOf({ flow, vectors, action }: Decode) {
  const shows = (symbol: string) =>
    letterOf(symbol) in vectors || (letterOf(symbol) === flow?.word && action === "write");
  const all = flow ? startOf(flow) : [];
  return all.some(({ symbol }) => shows(symbol)) ? all : [];
}

/** At the left: what asks, and what else the step begins with, each with what it goes into. */
export function Start({ decode, moment, axis, rows, tall, stacked }: SideProps & { axis: PageAxis }) {
  const { step, count } = moment;
  const first = step - count + 1;
  const all = startsOf(decode).map((each) => ({ ...each, values: valueAt(decode, each.symbol, step, first) }));
  const shown = all.find(({ values }) => values);
  return (
    <div class="at-q vector" style={stacked ? undefined : { gridRow: `${FIRST_ROW} / span ${Math.max(1, rows)}` }}>
      {stacked && (
        <h2 class="steps-head">
          <Term column="q" />
        </h2>
      )}
      {shown && (
        <Strip
          values={shown.values!}
          name={`${placed(shown.symbol, count).replace(/[_{}]/g, "")}, which step ${count} has before it reads`}
          height={stacked ? 20 : Math.max(40, tall - 18 * Math.max(0, all.length - 3))}
          down={!stacked}
        />
      )}
      <ul class="goes">
        {all.map(({ symbol, into }) => (
          <li key={symbol}>
            <Maths text={placed(symbol, count)} />
            {letterOf(symbol) === decode.flow!.word && " "}
            {letterOf(symbol) === decode.flow!.word && (
              <bdi dir="auto" class="token">
                {step > 0 ? short(axis.labels[step - 1] ?? "", 8) : "start"}
              </bdi>
            )}
            {into.length > 0 && (
              <>
                {" → "}
                <Maths text={placed(into.join(", "), count)} />
              </>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Between({ decode, moment, ...side }: SideProps) {
  return (
    <>
      {betweenOf(decode).map((symbol) => (
        <Vector
          key={symbol}
          place="s"
          name={`state of step ${moment.count}`}
          values={valueAt(decode, symbol, moment.step, moment.step - moment.count + 1)}
          {...side}
        />
      ))}
    </>
  );
}

/** Below: the new state, and what the next step begins with. Of a model that declares nothing, the state that was kept. */
export function Onward({ decode, moment, axis }: Pick<SideProps, "decode" | "moment"> & { axis: PageAxis }) {
  const { flow } = decode;
  const { step, count, written } = moment;
  const moved = flow ? flow.state[0] : "s[t]";
  const values = moved === undefined ? null : valueAt(decode, moved, step, step - count + 1);
  if (moved === undefined || (!flow && !values)) return null;
  const equation = flow && stateEquation(flow, count);
  // Where nothing is read in between, what the output is computed from has moved first.
  const first = !!flow && (movesFirst(flow) || (!decode.look && flow.output.includes(moved)));
  const strip = values && !first && !betweenOf(decode).includes(moved);
  const word = !!flow && moment.writes && written !== null;
  const onward = flow
    ? startOf(flow)
        .map(({ symbol }) => symbol)
        .filter((symbol) => symbol.endsWith("[t-1]") && (word || letterOf(symbol) !== flow.word))
        .map((symbol) => symbol.replace("[t-1]", "[t]"))
        .sort((a, b) => Number(letterOf(a) === flow.word) - Number(letterOf(b) === flow.word))
    : [];
  const last = moment.writes && step >= axis.labels.length - 1;
  return (
    <div class="at-next">
      {equation && (
        <span>
          {first ? "First the state moves: " : "Then the state moves: "}
          <Equation text={equation} />
        </span>
      )}
      {!flow && <span>The state that was kept of this step:</span>}
      {strip && <Strip values={values} name={`state of step ${count}`} height={14} />}
      {flow && (
        <span>
          {last ? (
            "This was the last step."
          ) : (
            <>
              The next step has <Maths text={listed(onward, count)} />
              {word && " "}
              {word && (
                <bdi dir="auto" class="token">
                  {short(written, 12)}
                </bdi>
              )}
            </>
          )}
        </span>
      )}
    </div>
  );
}

interface OutputProps {
  decode: Decode;
  moment: Moment;
  hand: Hand;
  /** what was likely here before the reader changed anything */
  before: Likely[] | null;
  axis: PageAxis;
  rows: number;
  stacked: boolean;
}

/** The likeliest outputs. Of what is written each is a button: what if it had written this? */
export function Output({ decode, moment, hand, before, axis, rows, stacked }: OutputProps) {
  const { likely, written } = moment;
  // A forced or sampled output need not be among the likely ones; what was written is always shown.
  const missing = moment.writes && written !== null && !likely.some((each) => each.label === written);
  return (
    <div class="at-p output" style={stacked ? undefined : { gridRow: `${FIRST_ROW} / span ${rows + 2}` }}>
      {stacked && (
        <h2 class="steps-head">
          <Term column="p" />
        </h2>
      )}
      {likely.length ? (
        <ul class={before ? "compares" : undefined}>
          {likely.map((each, i) => (
            <Likelihood
              key={i}
              each={each}
              chosen={each.label === written}
              before={before}
              {...{ hand, axis, moment }}
            />
          ))}
          {missing && (
            <li class="note-line">
              {`${moment.given ? "given" : "written"}: ${short(written, 24)}, which is not among them`}
            </li>
          )}
        </ul>
      ) : (
        <p class="missing">
          <Unknown decode={decode} moment={moment} />
        </p>
      )}
      {moment.forced && !hand.reason && carried.asking && <carried.asking.Beginning hand={hand} />}
    </div>
  );
}

/** What is said where nothing is known to have been likely. */
function Unknown({ decode, moment }: Pick<OutputProps, "decode" | "moment">) {
  const { action, trace } = decode;
  const { written } = moment;
  const { tags, score } = trace.about;
  if (decode.reads)
    return (
      <>
        {decode.flow?.into
          ? `No output is read off here: the context goes into ${decode.flow.into}.`
          : "No output is read off here."}
      </>
    );
  if (moment.given)
    return (
      <>
        <b dir="auto">{short(written ?? "", 24)}</b> was given, not written
      </>
    );
  if (action === "tag" && tags && written === null) return <>No tag is said here.</>;
  if (action === "score" && typeof score === "number")
    return (
      <>
        scored <b>{number(score)}</b>
      </>
    );
  if (written === null) return <>Outputs were not kept.</>;
  return (
    <>
      {action === "write" ? "wrote" : "said"} <b dir="auto">{short(written, 24)}</b>; how likely it was, was not kept
    </>
  );
}

interface LikelihoodProps {
  each: Likely;
  chosen: boolean;
  /** what was likely here before the reader changed anything */
  before: Likely[] | null;
  hand: Hand;
  axis: PageAxis;
  moment: Moment;
}

/** " was 0.14"; of an output that was not among the likeliest no more is known than that it was no likelier than those. */
function wasOf({ label, probability }: Likely, before: Likely[]): string {
  const was = before.find((other) => other.label === label);
  const least = Math.min(...before.map((other) => other.probability));
  if (Math.abs((was?.probability ?? 0) - probability) < 0.005) return "";
  if (was) return ` was ${number(was.probability)}`;
  return before.length && Number.isFinite(least) ? ` was at most ${number(least)}` : " was less likely";
}

function Likelihood({ each, chosen, before, hand, axis, moment }: LikelihoodProps) {
  const label = short(each.label, 16);
  const special = isSpecial({ ...axis, special: undefined, labels: [each.label], kind: "tokens" }, 0);
  const share = Number.isFinite(each.probability) ? Math.max(0, Math.min(1, each.probability)) : 0;
  const was = before ? wasOf(each, before) : "";
  const asked = special ? "This cannot be forced" : chosen ? "This is what it wrote" : "What if it had written this?";
  const told = moment.given && chosen ? "This was given, not written" : each.label === label ? undefined : each.label;
  return (
    <li class={chosen ? "likely chosen" : "likely"}>
      <button
        class="quiet"
        disabled={!!hand.reason || hand.busy || special || chosen || !moment.forced}
        title={moment.forced ? (hand.reason ?? asked) : told}
        aria-label={moment.forced ? `write ${label} here` : undefined}
        onClick={() => hand.begin(prefixOf(axis, moment.step, each.label))}
      >
        <bdi dir="auto">{label}</bdi>
      </button>
      <span class="track">
        <span class="bar" style={{ width: `${100 * share}%` }} />
        <span class="figure-at" style={{ left: `calc(${100 * share}% + 6px)`, "--share": `${100 * share}%` }}>
          {number(each.probability)}
          {was && <span class="was">{was}</span>}
        </span>
      </span>
    </li>
  );
}
