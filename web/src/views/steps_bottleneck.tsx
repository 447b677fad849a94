// Without attention: of who writes, all that was read goes into one vector, and all that is written comes out of it; of who
// decides, the states and the answer.
import { useRef } from "preact/hooks";
import { short } from "../labels";
import { outputKind } from "../output_kind";
import { useColours, useMedia } from "../theme";
import type { PageAxis } from "../types";
import type { Hand } from "../what_if_hand";
import { Between, Onward, Output, Vector } from "./steps_flow";
import { FIRST_ROW, gridOf, NARROW, TALLEST, tallOf, useRowHeight } from "./steps_layout";
import { betweenOf, type Decode, type Likely, vectorAt } from "./steps_loading";
import { MOST_ROWS, type Moment } from "./steps_moment";
import { States } from "./steps_rows";
import { type Column, ColumnHeads, Equations } from "./steps_words";

interface BottleneckProps {
  decode: Decode;
  moment: Moment;
  hand: Hand;
  before: Likely[] | null;
}

export function Bottleneck({ decode, moment, hand, before }: BottleneckProps) {
  const { trace, read } = decode;
  const { shade } = useColours();
  const stacked = useMedia(NARROW);
  const sourceName = trace.signals["encoder.state"]?.axis;
  const source = read && sourceName ? trace.axis(sourceName) : null;
  const count = source ? source.labels.length : 0;
  // Of a long input the end is shown: the last state is what goes on.
  const keys = Array.from({ length: Math.min(count, MOST_ROWS) }, (_, i) => Math.max(0, count - MOST_ROWS) + i);
  const grid = useRef<HTMLDivElement>(null);
  const height = useRowHeight(keys.length, grid, stacked);
  const tall = keys.length ? tallOf(keys.length * height) : TALLEST;
  const writes = decode.action === "write";
  const passed = decode.flow?.passed ?? 0;
  const last = writes ? vectorAt(read, count - 1) : null;
  const between = betweenOf(decode);
  const present: Column[] = [
    ...(source ? (["label", "h"] as const) : []),
    ...(source && writes ? (["r", "b"] as const) : []),
    ...(between.length ? (["s"] as const) : []),
    "p",
  ];
  const vectors = { rows: keys.length, tall, stacked };
  const axis = trace.axis(trace.outputs?.axis ?? "target");
  return (
    <>
      {writes && (
        <p class="steps-said">
          {`There is no attention here: it cannot look back at ${outputKind(trace.about) === "continuation" ? "the words before" : "the input"}.`}
          {last && passed === last.length && ` Everything it knows of it has passed through these ${passed} numbers.`}
          {passed > 0 && passed !== last?.length && ` Everything it knows of it has passed through ${passed} numbers.`}
        </p>
      )}
      {!writes && (
        <p class="steps-said">There is no attention here, so no weights say which positions counted for how much.</p>
      )}
      <div
        ref={grid}
        class={keys.length ? "steps bottleneck" : "steps bottleneck rowless"}
        data-stage={4}
        style={{ ...gridOf(present, keys.length, height), "--weight": shade(0.68) }}
      >
        <ColumnHeads columns={present} axis={sourceName} decode={decode} />
        {source && (
          <>
            <Labels axis={source} keys={keys} height={height} />
            <States decode={decode} keys={keys} height={height} />
            {writes && (
              <>
                <Funnel rows={keys.length} height={height} tall={tall} />
                <Vector place="b" name="last state of the encoder" values={last} {...vectors} />
              </>
            )}
          </>
        )}
        <Between {...{ decode, moment, ...vectors }} />
        <Output {...{ decode, moment, hand, before, axis, stacked }} rows={keys.length} />
        <Onward {...{ decode, moment, axis }} />
        <Equations decode={decode} moment={moment} />
      </div>
    </>
  );
}

function Labels({ axis, keys, height }: { axis: PageAxis; keys: number[]; height: number }) {
  return (
    <>
      {keys.map((key, i) => (
        <div class="steps-row" key={key} style={{ gridRow: i + FIRST_ROW, height: `${height}px` }}>
          <span class="at-label steps-label">
            <span class="place">{key + 1}</span>
            <bdi dir="auto" class={/^␣+$/.test(short(axis.labels[key] ?? "", 24)) ? "blank" : undefined}>
              {short(axis.labels[key] ?? "", 24)}
            </bdi>
          </span>
        </div>
      ))}
    </>
  );
}

/** All rows into one place, none more than another. */
function Funnel({ rows, height, tall }: { rows: number; height: number; tall: number }) {
  const total = rows * height;
  const [top, end] = [(total - tall) / 2, (total + tall) / 2];
  return (
    <svg
      class="at-r ribbons"
      style={{ gridRow: `${FIRST_ROW} / span ${Math.max(1, rows)}`, height: `${total}px` }}
      viewBox={`0 0 100 ${total || 1}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path class="funnel" d={`M0 0C55 0 45 ${top} 100 ${top}V${end}C45 ${end} 55 ${total} 0 ${total}Z`} />
    </svg>
  );
}
