// The rows of Steps: one a position of what was read, the same row through label, state, score and weight.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { isSpecial, number, short } from "../labels";
import { useWidth } from "../heatmap";
import { useColours } from "../theme";
import type { Matrix, PageAxis, ViewProps } from "../types";
import { largestSize } from "../vectors";
import type { Hand } from "../what_if_hand";
import { patchAt } from "./image_overlay";
import { FIRST_ROW } from "./steps_layout";
import type { Decode } from "./steps_loading";
import { type Moment, numberOf, sizeAt } from "./steps_moment";

const STEP = 0.05; // what a key press moves
const HEAVY = 0.1; // a weight whose numbers and label are always told
const LEAST = 0.005; // a smaller weight is told where it is pointed at
const MOVED = 4; // pixels before a press becomes a drag

export interface RowsProps {
  decode: Decode;
  moment: Moment;
  hand: Hand;
  masked: ReadonlySet<number>;
  height: number;
  set: ViewProps["set"];
  locked: number | null;
}

export function Rows(props: RowsProps) {
  const { moment } = props;
  const whole = useMemo(() => rangeOf(props.decode.scores), [props.decode]);
  const range = whole ?? rangeOf(null, moment.scores);
  const { keys, others } = moment.shown;
  return (
    <>
      {keys.map((key, i) => (
        <Row key={key} at={key} line={i + FIRST_ROW} range={range!} {...props} />
      ))}
      {others && (
        <div class="steps-row others" style={{ gridRow: keys.length + FIRST_ROW }}>
          <span class="at-label others-said">
            {others.count ? `${others.count} others` : "what was not kept"}
            {`, together ${number(others.mass, moment.exact)}`}
          </span>
          <span class="at-a track">
            <span class="bar" style={{ width: `${100 * Math.min(1, others.mass)}%` }} />
          </span>
        </div>
      )}
    </>
  );
}

interface Range {
  low: number;
  high: number;
}

const MANY = 1 << 18; // scores looked through for one scale; beyond it each step has its own

/** One scale for all steps, zero included, so that bars of two steps can be compared; null where there are too many. */
function rangeOf(scores: Matrix | null, row: ArrayLike<number> | null = null): Range | null {
  if (scores && scores.rows * scores.columns > MANY) return null;
  const range = { low: 0, high: 0 };
  const see = (value: number) => {
    if (!Number.isFinite(value)) return;
    range.low = Math.min(range.low, value);
    range.high = Math.max(range.high, value);
  };
  for (let r = 0; scores && r < scores.rows; r++) scores.entries(r, (_, value) => see(value));
  Array.from(row ?? []).forEach(see);
  return range;
}

function Row(props: RowsProps & { at: number; line: number; range: Range }) {
  const { at, decode, moment, masked, height, set, locked, line, range } = props;
  const axis = decode.look!.key;
  const lit = moment.lit === at;
  const classes = [
    "steps-row",
    lit && "lit",
    locked === at && "locked",
    moment.row[at]! >= HEAVY && "heavy",
    masked.has(at) && "masked",
    isSpecial(axis, at) && "special",
    at >= sizeAt(decode, moment.step) && "ahead",
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <div
      class={classes}
      style={{ gridRow: line, height: `${height}px` }}
      onPointerEnter={(event) => event.pointerType === "mouse" && set({ hover: { step: moment.step, key: at } })}
      onPointerLeave={() => set({ hover: null })}
      onClick={() => set({ key: locked === at ? null : at })}
    >
      <Label axis={axis} at={at} number={numberOf(decode, at)} height={height} />
      {moment.scores && (
        <Score score={moment.scores[at]!} range={range} told={lit || moment.key === at || moment.row[at]! >= HEAVY} />
      )}
      <Weight {...props} />
    </div>
  );
}

function Label({ axis, at, number: place, height }: { axis: PageAxis; at: number; number: string; height: number }) {
  const pictured = axis.kind === "grid" && !!axis.image && !!axis.width;
  const label = short(axis.labels[at] ?? "", 24);
  // Beside its piece of the picture a place needs only its row and column.
  const said = pictured ? `${Math.floor(at / axis.width!) + 1} · ${(at % axis.width!) + 1}` : label;
  return (
    <span class="at-label steps-label" title={said === label ? undefined : label}>
      <span class="place">{place}</span>
      {pictured && <Patch axis={axis} at={at} size={height - 2} />}
      <bdi dir="auto" class={/^␣+$/.test(said) ? "blank" : undefined}>
        {axis.kind === "frames" && axis.seconds ? `${number(at * axis.seconds)} s` : said}
      </bdi>
    </span>
  );
}

const pictures = new WeakMap<PageAxis, HTMLImageElement>();

/** An axis's picture, read once for all its pieces. */
function pictureOf(axis: PageAxis): HTMLImageElement {
  const found = pictures.get(axis) ?? new Image();
  if (!pictures.has(axis)) found.src = axis.image ?? "";
  pictures.set(axis, found);
  return found;
}

/** The piece of the picture that a position stands for. */
function Patch({ axis, at, size }: { axis: PageAxis; at: number; size: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const picture = pictureOf(axis);
    const draw = () => {
      const ctx = canvas.current?.getContext("2d");
      const [x, y, w, h] = patchAt(axis, at, picture.width, picture.height);
      ctx?.drawImage(picture, x, y, w, h, 0, 0, ctx.canvas.width, ctx.canvas.height);
    };
    if (picture.complete && picture.width) return draw();
    picture.addEventListener("load", draw);
    return () => picture.removeEventListener("load", draw);
  }, [axis, at, size]);
  return (
    <canvas
      ref={canvas}
      width={2 * size}
      height={2 * size}
      style={{ width: `${size}px`, height: `${size}px` }}
      aria-hidden="true"
    />
  );
}

function Score({ score, range, told }: { score: number; range: Range; told: boolean }) {
  const { signed } = useColours();
  const span = range.high - range.low || 1;
  const zero = -range.low / span;
  const size = Number.isFinite(score) ? Math.abs(score) / span : 0;
  const left = score < 0 ? zero - size : zero;
  return (
    <span class="at-e track">
      <span class="zero" style={{ left: `${100 * zero}%` }} />
      <span
        class="score"
        style={{ left: `${100 * left}%`, width: `${100 * size}%`, background: signed(score < 0 ? -0.75 : 0.75) }}
      />
      {(told || !Number.isFinite(score)) && (
        <span class="figure-at" style={{ left: `calc(${100 * (zero + (score > 0 ? size : 0))}% + 4px)` }}>
          {number(score)}
        </span>
      )}
    </span>
  );
}

function Weight({ at, decode, moment, hand, set }: RowsProps & { at: number }) {
  const weight = moment.row[at]!;
  const share = Number.isFinite(weight) ? Math.max(0, Math.min(1, weight)) : 0;
  const free = !hand.stuck && at < sizeAt(decode, moment.step);
  const drags = useDrag(at, free, hand);
  const name = `weight of ${short(decode.look!.key.labels[at] ?? "", 40)}, position ${numberOf(decode, at)}`;
  const marked = moment.weighed.by === "hand" ? " changed" : "";
  return (
    <span
      class={`at-a track weight${free ? " free" : ""}${marked}`}
      role="slider"
      tabIndex={at === moment.key ? 0 : -1}
      aria-label={name}
      aria-valuemin={0}
      aria-valuemax={1}
      aria-valuenow={Number(share.toFixed(4))}
      aria-valuetext={Number.isFinite(weight) ? number(weight, moment.exact) : "not a number"}
      aria-disabled={!free}
      title={hand.stuck ?? undefined}
      onKeyDown={(event) => pressed(event, at, weight, moment, hand, set)}
      {...drags}
    >
      <span class="bar" style={{ width: `${100 * share}%` }} />
      <span class="figure-at" style={{ left: `calc(${100 * share}% + 6px)`, "--share": `${100 * share}%` }}>
        {weight < LEAST && moment.lit !== at ? "" : number(weight, moment.exact)}
      </span>
    </span>
  );
}

/** What a pointer does to a bar: a press alone is a click on the row, a press that moves is a drag. */
function useDrag(at: number, free: boolean, hand: Hand) {
  const start = useRef<{ x: number; drags: boolean } | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      if (!free || event.button !== 0) return;
      start.current = { x: event.clientX, drags: false };
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      const from = start.current;
      if (!from || (!from.drags && Math.abs(event.clientX - from.x) < MOVED)) return;
      from.drags = true;
      const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
      hand.drag(at, (event.clientX - box.left) / Math.max(1, box.width), true);
    },
    onPointerUp(event: PointerEvent) {
      if (start.current?.drags) hand.keep();
      // A pointer has done with it: the arrows step again, until a Tab brings them back to the bar.
      (event.currentTarget as HTMLElement).blur();
    },
    onPointerCancel() {
      start.current = null;
      hand.letGo();
    },
    onClick(event: MouseEvent) {
      if (start.current?.drags) event.stopPropagation();
      start.current = null;
    },
  };
}

function pressed(
  event: KeyboardEvent,
  at: number,
  weight: number,
  moment: Moment,
  hand: Hand,
  set: ViewProps["set"],
): void {
  const by = { ArrowRight: STEP, "+": STEP, "=": STEP, ArrowLeft: -STEP, "-": -STEP, "−": -STEP }[event.key];
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  // A bar that cannot be moved leaves the arrows to the steps.
  if (by !== undefined && hand.stuck) return;
  if (by !== undefined) hand.drag(at, Math.round(((weight || 0) + by) * 100) / 100, false);
  else if (move !== undefined) {
    const next = moment.shown.keys[moment.shown.keys.indexOf(at) + move];
    if (next === undefined) return event.preventDefault();
    set({ key: next, hover: null });
    const row = (event.currentTarget as HTMLElement).closest(".steps")?.querySelectorAll<HTMLElement>("[role=slider]");
    row?.[moment.shown.keys.indexOf(next)]?.focus();
  } else if (event.key === "Enter" && hand.draft) hand.keep();
  else if (event.key === "Escape" && hand.draft) hand.letGo();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** The states that are read, one thin strip a row, in one canvas: their numbers are many and the same at all steps. */
export function States({ decode, keys, height }: { decode: Decode; keys: number[]; height: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const colours = useColours();
  const read = decode.read!;
  const total = keys.length * height;
  useLayoutEffect(() => {
    const ctx = canvas.current?.getContext("2d");
    if (!ctx || !width) return;
    const density = window.devicePixelRatio || 1;
    ctx.canvas.width = Math.round(width * density);
    ctx.canvas.height = Math.round(total * density);
    ctx.scale(density, density);
    const rows = keys.map((key) =>
      key >= read.first && key - read.first < read.values.rows ? read.values.row(key - read.first) : null,
    );
    const largest = Math.max(0, ...rows.map((row) => (row ? largestSize(row) : 0))) || 1;
    const gap = height > 6 ? 2 : 0;
    rows.forEach((row, line) => {
      const cell = width / Math.max(1, row?.length ?? 1);
      row?.forEach((value, i) => {
        ctx.fillStyle = colours.signed(value / largest);
        ctx.fillRect(i * cell, line * height + gap, Math.max(cell, 1 / density), height - 2 * gap);
      });
    });
  }, [decode, keys.join(), height, width, colours]);
  return (
    <div class="at-h" style={{ gridRow: `${FIRST_ROW} / span ${Math.max(1, keys.length)}` }} ref={box}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`states of what is read: ${keys.length} rows of ${read.values.columns} numbers`}
        style={{ display: "block", width: "100%", height: `${total}px` }}
      />
    </div>
  );
}
