// Steps: one step of a decode from left to right. Scores become weights, weights a context, a context the output.
import { useMemo, useRef } from "preact/hooks";
import { carried } from "../carried";
import { DID } from "../output_kind";
import { Figure, type Table } from "../figure";
import { number, short } from "../labels";
import { useLoaded } from "../look";
import { Switch, Waiting } from "../parts";
import { useSay } from "../readout";
import { siteOf, speedOf } from "../state";
import { useColours, useMedia } from "../theme";
import type { Part, View, ViewProps } from "../types";
import { touches } from "../what_if";
import { type Hand, SAVED, useHand } from "../what_if_hand";
import { Bottleneck } from "./steps_bottleneck";
import { Between, Onward, Output, Ribbons, Start, startsOf, Vector } from "./steps_flow";
import { gridOf, LOWEST, NARROW, tallOf, useRowHeight, useStage } from "./steps_layout";
import { betweenOf, type Decode, isDecode, type Likely, likelyAt, loadDecode } from "./steps_loading";
import { MOST_ROWS, type Moment, momentOf, numberOf, placeOf, sizeAt, stepAt } from "./steps_moment";
import { Rows, States } from "./steps_rows";
import { heaviest } from "./steps_numbers";
import { Caption, type Column, ColumnHeads, Equations } from "./steps_words";
import "./steps.css";

export const steps: View = {
  id: "steps",
  title: "Steps",
  about: "One step at a time: scores, weights, context, output.",
  serves: isDecode,
  Component: Steps,
};

function Steps(props: ViewProps) {
  const { trace, state } = props;
  // No owner: while a changed trace loads, the old one stays, so that nothing flickers under the hand.
  const { value: decode, error } = useLoaded(() => loadDecode(trace, state), [trace, siteOf(trace, state), state.head]);
  if (!decode) return <Waiting error={error} />;
  return <Attending {...props} decode={decode} />;
}

function Attending({ decode, state, set, live }: ViewProps & { decode: Decode }) {
  const { look, trace } = decode;
  const step = stepAt(decode, state);
  const place = placeOf(decode, step);
  const size = sizeAt(decode, step);
  const row = useMemo(() => (look && look.weights.rows ? look.weights.row(step - look.map.step) : []), [look, step]);
  const stuck = look?.weights.partial
    ? "Only the largest weights of each step were kept, so a row cannot be set."
    : null;
  const hand = useHand({ trace, place, row, size, stuck }, live);
  const moment = momentOf(decode, state, hand.draft, hand.session.changes);
  const before = useBefore(hand, state, step);
  const sum = Array.from(moment.row).reduce((all, weight) => all + weight, 0);
  useSay(saidOf(decode, moment, hand));
  // Where nothing looks and nothing is written there is nothing to change.
  const asks = place !== null || moment.forced;
  const long = !!look && look.map.keys > MOST_ROWS && look.map.keys <= 400;
  const at = hand.draft?.key ?? state.key ?? heaviest(row);
  const panel = { trace, hand, place, size, sum, set, axis: look?.key ?? null, at: at < size ? at : -1 };
  const WhatIf = live && carried.asking;
  const controls = (
    <>
      {asks && (WhatIf ? <WhatIf.Controls {...panel} /> : <SavedPage />)}
      {long && (
        <Switch
          label="every position"
          on={state.more["steps.all"] === true}
          set={(on) => set({ more: { "steps.all": on } })}
        />
      )}
    </>
  );
  return (
    <Figure
      name="steps"
      table={tableOf(decode, moment)}
      caption={<Caption decode={decode} moment={moment} />}
      controls={controls}
    >
      {asks && WhatIf && <WhatIf.Told {...panel} />}
      {look ? (
        <Picture {...{ decode, moment, hand, before, set }} locked={state.key} speed={speedOf(state)} />
      ) : (
        <Bottleneck {...{ decode, moment, hand, before }} />
      )}
    </Figure>
  );
}

/** In a saved page nobody answers: it says who would. */
function SavedPage() {
  return (
    <p class="saved-page" role="group" aria-label="what if">
      <strong>What if</strong> {SAVED}
    </p>
  );
}

/** What the readout says: what the hand does; without attention, what came out; else the shell speaks. */
function saidOf(
  { action, look, trace }: Decode,
  { step, written, given, likely }: Moment,
  { draft }: Hand,
): Part[] | null {
  const labels = look?.key.labels ?? null;
  if (draft)
    return [
      draft.pressed ? "You give " : "You would give ",
      { token: short(labels?.[draft.key] ?? "") },
      ` a weight of ${number(draft.row[draft.key])}.`,
    ];
  if (labels || written === null) return null;
  const found = likely.find((each) => each.label === written);
  if (given)
    return [
      { token: short(written) },
      " was given, not written",
      found ? `; its probability was ${number(found.probability)}.` : ".",
    ];
  // A tag is told with its word, and of a candidate its score: as the steps are named.
  const steps = action === "tag" || action === "score" ? trace.axes[trace.outputs?.axis ?? ""] : undefined;
  return [
    DID[action],
    { token: short(steps?.labels[step] ?? written) },
    found ? ` (probability ${number(found.probability)}).` : ".",
  ];
}

/** What was likely at this step before the reader changed anything; null when nothing is changed. */
function useBefore(hand: Hand, state: ViewProps["state"], step: number): Likely[] | null {
  const { base } = hand.session;
  const { value } = useLoaded(
    async () => (hand.changed ? (await loadDecode(base, state)).outputs : null),
    [base, hand.changed],
  );
  return hand.changed && value ? likelyAt(value, step) : null;
}

interface PictureProps {
  decode: Decode;
  moment: Moment;
  hand: Hand;
  before: Likely[] | null;
  set: ViewProps["set"];
  locked: number | null;
  speed: number;
}

const ALL: Column[] = ["q", "label", "h", "e", "a", "r", "c", "s", "p"];

function Picture({ decode, moment, hand, before, set, locked, speed }: PictureProps) {
  const { shade } = useColours();
  const stacked = useMedia(NARROW);
  const stage = useStage(moment.step, speed);
  const rows = moment.shown.keys.length;
  const grid = useRef<HTMLDivElement>(null);
  const height = useRowHeight(rows, grid, stacked);
  const tall = tallOf(rows * height);
  const touched = hand.session.changes.filter((change) => touches(change, placeOf(decode, moment.step)!));
  const masked = new Set(touched.flatMap((change) => (change.edit.edit === "mask" ? (change.edit.keys ?? []) : [])));
  const mixes = !decode.points;
  const kept: Partial<Record<Column, unknown>> = {
    h: decode.read,
    e: moment.scores,
    r: mixes,
    c: mixes,
    s: betweenOf(decode).length,
    q: startsOf(decode).length,
  };
  const present = ALL.filter((column) => !(column in kept) || kept[column]);
  const axis = decode.trace.axis(decode.trace.outputs?.axis ?? decode.look!.map.query);
  const vectors = { rows, tall, stacked };
  return (
    <div
      ref={grid}
      class={`steps${hand.draft ? " held" : ""}${height < LOWEST ? " thin" : ""}`}
      data-stage={stage}
      style={{ ...gridOf(present, rows, height), "--weight": shade(0.68) }}
    >
      <ColumnHeads columns={present} axis={decode.look!.map.key} decode={decode} />
      {startsOf(decode).length > 0 && <Start {...{ decode, moment, axis, ...vectors }} />}
      {decode.read && <States decode={decode} keys={moment.shown.keys} height={height} />}
      <Rows {...{ decode, moment, hand, masked, height, set, locked }} />
      {mixes && (
        <>
          <Ribbons moment={moment} height={height} tall={tall} />
          <Vector
            place="c"
            name={`context of step ${moment.count}`}
            values={moment.context}
            parts={decode.heads}
            changed={touched.length > 0 || !!hand.draft}
            {...vectors}
          />
        </>
      )}
      <Between {...{ decode, moment, ...vectors }} />
      <Output {...{ decode, moment, hand, before, axis, rows, stacked }} />
      <Onward {...{ decode, moment, axis }} />
      <Equations decode={decode} moment={moment} />
    </div>
  );
}

/** The same numbers as a table: a row a position with its score and weight, then a row a likely output. */
function tableOf(decode: Decode, moment: Moment): Table {
  const labels = decode.look?.key.labels ?? [];
  const { keys } = moment.shown;
  const { likely } = moment;
  const cell = (row: number, column: number) => {
    const key = keys[row];
    if (key === undefined) return column === 2 ? number(likely[row - keys.length]?.probability, true, 3) : "";
    if (column === 2) return "";
    return column === 0
      ? moment.scores
        ? number(moment.scores[key], true, 3)
        : ""
      : number(moment.row[key], moment.exact, 3);
  };
  const rowLabel = (row: number) =>
    row < keys.length
      ? `${numberOf(decode, keys[row]!)} ${labels[keys[row]!] ?? ""}`
      : `output ${likely[row - keys.length]?.label ?? ""}`;
  return {
    corner: `step ${moment.count}`,
    columns: ["score e", "weight α", "output p"],
    rows: keys.length + likely.length,
    rowLabel,
    cell,
  };
}
