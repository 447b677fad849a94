// Image: what each word looked at, as the part of the picture that is not veiled.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number, short } from "../labels";
import { type Look, useLoaded } from "../look";
import { Switch, Waiting } from "../parts";
import { moment, useSay } from "../readout";
import { useColours } from "../theme";
import type { LoadedTrace, PageAxis, PageMap, PageTrace, View, ViewProps } from "../types";
import { drawMarks, drawOverlay, type Marks, type Overlay, patchUnder } from "./image_overlay";
import { strongEnd } from "../scale";
import { Choices, halfOf, keyKind, largestOf, serving, useFitting } from "./sources";
import "./image.css";

function fits(map: PageMap, trace: PageTrace): boolean {
  return keyKind(trace, map) === "grid";
}

export const image: View = {
  id: "image",
  title: "Image",
  about: "The picture as each word saw it: what is clear was looked at, what is veiled was not.",
  picks: true,
  serves: serving(fits),
  front: (trace) => trace.maps.some((map) => fits(map, trace) && !!trace.axes[map.key]!.image),
  Component: ImageView,
};

function ImageView(props: ViewProps) {
  const { value: look, error, sites } = useFitting(props, fits);
  const address = look?.key.image;
  const { value: picture, error: broken } = useLoaded(
    async () => (address ? loaded(address) : null),
    [address],
    look?.key,
  );
  const { value: beside, error: lost } = useLoaded(
    async () => (look ? besideOf(props.trace, look) : null),
    [look],
    look,
  );
  if (!look || !beside || (address && !picture)) return <Waiting error={error ?? broken ?? lost} />;
  return <ImageOf {...props} look={look} picture={picture} sites={sites} beside={beside} />;
}

/** What was recorded of a step beside its map: how much the gate let in, and the patch that hard attention read. */
interface Beside {
  gate(step: number): number | null;
  chosen(step: number): number | null;
}

async function besideOf(trace: LoadedTrace, { map, weights }: Look): Promise<Beside> {
  const part = map.site.slice(0, Math.max(0, map.site.lastIndexOf(".")));
  const read = async (name: string) => {
    const signal = trace.signals[`${part}.${name}`];
    const values = signal?.axis === map.query ? await trace.signal(`${part}.${name}`) : null;
    return (step: number) => {
      const row = values?.columns === 1 ? step - signal!.step : -1;
      const value = row >= 0 && row < values!.rows ? values!.at(row, 0) : NaN;
      return Number.isFinite(value) ? value : null;
    };
  };
  const [gate, patch] = [await read("gate"), await read("chosen")];
  return {
    gate,
    chosen(step) {
      const at = patch(step);
      return at === null || at < 0 || at >= weights.columns ? null : Math.round(at);
    },
  };
}

async function loaded(address: string): Promise<HTMLImageElement> {
  // Only what the page carries: an address elsewhere would be a request.
  if (!address.startsWith("data:image/")) throw new Error("The picture is not in this page. Save it again.");
  const picture = new Image();
  picture.src = address;
  try {
    await picture.decode();
  } catch {
    throw new Error("The picture in this page cannot be read. Save it again.");
  }
  return picture;
}

type ImageProps = ViewProps & { look: Look; picture: HTMLImageElement | null; sites: string[]; beside: Beside };

function ImageOf({ trace, state, set, look, picture, sites, beside }: ImageProps) {
  const { map, weights, key } = look;
  const inward = look.query.kind === "grid"; // patches look at patches: a click chooses the one that looks
  const veil = Math.max(0, Math.min(1, Number(state.more["image.veil"] ?? 0.85)));
  const smooth = state.more["image.smooth"] !== false;
  const named = useMemo(() => ({ ...look, key: placed(key), query: inward ? placed(look.query) : look.query }), [look]);
  const at = state.hover ?? state;
  useSay(moment(named, trace.about, inward ? state.step : at.step, at.key));
  const overlay = (step: number): Overlay => {
    const row =
      step - map.step >= 0 && step - map.step < weights.rows ? weights.row(step - map.step) : new Float32Array(0);
    const largest = strongEnd(largestOf(row).value, row.length);
    return { axis: key, image: picture, row, largest, veil, smooth, chosen: beside.chosen(step) };
  };
  const words = weights.rows > 1 && !inward;
  // A pointer that moves over the picture draws it alone, not all the small ones.
  const small = useMemo(
    () =>
      words && (
        <Overlays {...{ look, overlay, beside }} step={state.step} patch={state.key} pick={(step) => set({ step })} />
      ),
    [words, look, picture, beside, veil, smooth, state.step, state.key],
  );
  return (
    <Figure
      name="image"
      table={tableOf(look, named.key)}
      controls={
        <>
          <Choices look={look} sites={sites} state={state} set={set} steps={false} />
          <Switch label="smooth" on={smooth} set={(on) => set({ more: { "image.smooth": on } })} />
          {picture && <Veil value={veil} set={(value) => set({ more: { "image.veil": value } })} />}
        </>
      }
      caption={
        <Caption {...{ look, beside, smooth, inward }} step={state.step} patch={state.key} picture={picture !== null} />
      }
    >
      <div class={words ? "image" : "image alone"}>
        <Picture overlay={overlay(state.step)} look={look} state={state} set={set} inward={inward} />
        {small}
      </div>
    </Figure>
  );
}

function Veil({ value, set }: { value: number; set(value: number): void }) {
  return (
    <label class="slider">
      veil
      <input
        type="range"
        min={0}
        max={1}
        step={0.05}
        value={value}
        onInput={(event) => set(Number(event.currentTarget.value))}
      />
    </label>
  );
}

/** The axis with patches named by where they are. */
function placed(axis: PageAxis): PageAxis {
  const columns = axis.width || 1;
  return {
    ...axis,
    labels: axis.labels.map((_, i) => `row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}`),
  };
}

/** Width ÷ height. */
function shapeOf({ image: picture, axis }: Overlay): number {
  return picture?.naturalHeight ? picture.naturalWidth / picture.naturalHeight : (axis.width || 1) / (axis.height || 1);
}

const AROUND = 366; // pixels of the page above and below the picture
const WIDEST = 720;

/** A canvas of this size, drawn on as sharply as the screen is. */
function useCanvas(width: number, height: number, draw: (ctx: CanvasRenderingContext2D) => void) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const ctx = canvas.current?.getContext("2d");
    if (!canvas.current || !ctx) return;
    const density = window.devicePixelRatio || 1;
    canvas.current.width = Math.max(1, Math.round(width * density));
    canvas.current.height = Math.max(1, Math.round(height * density));
    ctx.setTransform(density, 0, 0, density, 0, 0);
    draw(ctx);
  });
  return canvas;
}

const MOVES: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function Picture({
  overlay,
  look,
  state,
  set,
  inward,
}: Pick<ViewProps, "state" | "set"> & { overlay: Overlay; look: Look; inward: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const room = useWidth(box);
  const shape = shapeOf(overlay);
  const width = Math.min(room, WIDEST, Math.max(280, (window.innerHeight - AROUND) * shape));
  const height = width / shape;
  const { axis } = overlay;
  const moved = inward ? look.query : axis; // the grid that the arrows move on
  const [columns, rows] = [moved.width || 1, moved.height || 1];
  const marks: Marks = {
    hover: state.hover?.key ?? -1,
    locked: state.key ?? -1,
    from: inward ? state.step : -1,
    grid: look.query,
    exact: look.weights.exact,
  };
  const canvas = useCanvas(width, height, (ctx) => {
    drawOverlay(ctx, overlay, colours, width, height);
    drawMarks(ctx, overlay, marks, colours, width, height);
  });
  const place = (event: PointerEvent | MouseEvent): [number, number] => {
    const frame = canvas.current!.getBoundingClientRect();
    return [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
  };
  const patch = (event: PointerEvent | MouseEvent) => patchUnder(axis, ...place(event));
  const pick = (event: MouseEvent) => {
    if (inward) return set({ step: patchUnder(look.query, ...place(event)), key: null });
    const key = patch(event);
    set({ key: key === state.key ? null : key });
  };
  const keyed = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey || (!move && event.key !== "Enter" && event.key !== "Escape"))
      return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") return set({ key: null, hover: null });
    const from = (inward ? state.step : state.key) ?? largestOf(overlay.row).at;
    if (!move || (!inward && state.key === null)) return set(inward ? {} : { key: Math.max(0, from), hover: null });
    const column = Math.max(0, Math.min(columns - 1, (from % columns) + move[0]));
    const row = Math.max(0, Math.min(rows - 1, Math.floor(from / columns) + move[1]));
    set({ hover: null, [inward ? "step" : "key"]: row * columns + column });
  };
  return (
    <div ref={box}>
      <canvas
        ref={canvas}
        role="application"
        aria-roledescription="picture"
        aria-label={`the picture in ${rows} × ${columns} patches. Arrow keys move, Enter chooses the strongest, Escape lets go.`}
        tabIndex={0}
        style={{ width: `${width}px`, height: `${height}px`, cursor: "crosshair" }}
        onPointerMove={(event) =>
          patch(event) !== state.hover?.key && set({ hover: { step: state.step, key: patch(event) } })
        }
        onPointerLeave={() => set({ hover: null })}
        onClick={pick}
        onKeyDown={keyed}
      />
    </div>
  );
}

const WINDOW = 60; // small pictures at once

function Overlays({
  look,
  overlay,
  beside,
  step,
  patch,
  pick,
}: {
  look: Look;
  overlay(step: number): Overlay;
  beside: Beside;
  step: number;
  patch: number | null;
  pick(step: number): void;
}) {
  const { map, query, weights } = look;
  const last = map.step + weights.rows;
  const from = Math.max(map.step, Math.min(step - WINDOW / 2, last - WINDOW));
  const steps = Array.from({ length: Math.min(WINDOW, last - from) }, (_, i) => from + i);
  return (
    <div class="overlays" role="group" aria-label="one small picture a word">
      {steps.map((each) => (
        <button key={each} aria-current={each === step ? "step" : undefined} onClick={() => pick(each)}>
          <Small overlay={overlay(each)} />
          <bdi dir="auto">{short(query.labels[each] ?? String(each), 20)}</bdi>
          <Numbers
            gate={beside.gate(each)}
            here={patch === null ? null : weights.at(each - map.step, patch)}
            {...{ look }}
          />
        </button>
      ))}
    </div>
  );
}

/** Under a word: how much its gate let in, and its weight on the patch that was clicked. */
function Numbers({ gate, here, look }: { gate: number | null; here: number | null; look: Look }) {
  if (gate === null && here === null) return null;
  return (
    <span class="numbers">
      {gate !== null && <span title="how much of what was seen was let in">β {number(gate)}</span>}
      {here !== null && <span>here {number(here, look.weights.exact)}</span>}
    </span>
  );
}

const SMALL = 120; // pixels across

function Small({ overlay }: { overlay: Overlay }) {
  const colours = useColours();
  const height = SMALL / shapeOf(overlay);
  const canvas = useCanvas(SMALL, height, (ctx) => drawOverlay(ctx, overlay, colours, SMALL, height));
  return <canvas ref={canvas} aria-hidden="true" style={{ aspectRatio: `${SMALL} / ${height}` }} />;
}

function tableOf({ map, query, weights }: Look, key: PageAxis): Table {
  return {
    corner: map.query,
    columns: key.labels,
    rows: weights.rows,
    rowLabel: (row) => query.labels[map.step + row] ?? String(map.step + row),
    cell: (row, column) => number(weights.at(row, column), weights.exact, 3),
  };
}

function Caption({
  look,
  beside,
  step,
  patch,
  picture,
  smooth,
  inward,
}: {
  look: Look;
  beside: Beside;
  step: number;
  patch: number | null;
  picture: boolean;
  smooth: boolean;
  inward: boolean;
}) {
  const { weights, map, key } = look;
  const row = step - map.step;
  const inside = row >= 0 && row < weights.rows;
  const chosen = beside.chosen(step);
  const gate = beside.gate(step);
  const words = patch === null || inward || weights.rows < 2 ? [] : lookedThere(look, patch);
  return (
    <>
      {inside && `Half of the weight lies on ${halfOf(weights, row)} of ${weights.columns} patches. `}
      {chosen !== null
        ? `What is clear was read: the patch in ${placed(key).labels[chosen]}, chosen by its weight.`
        : picture
          ? "What is clear was looked at; the more veiled, the less."
          : "The stronger a patch’s colour, the more it was looked at."}
      {gate !== null && ` Of what was seen β = ${number(gate)} was let in.`}
      {smooth &&
        chosen === null &&
        " The veil runs smoothly between the middles of the patches; the numbers are the patches’ own."}
      {words.length > 0 && " Most of all looked here: "}
      {words.map(({ label, weight }, i) => (
        <>
          {i > 0 && ", "}
          <bdi class="token" dir="auto">
            {label}
          </bdi>
          {` (${number(weight, weights.exact)})`}
        </>
      ))}
      {words.length > 0 && "."}
      {inward && " Click a patch to look from there."}
      {look.averaged > 0 && ` This is the mean of ${look.averaged} heads.`}
    </>
  );
}

const NAMED = 3;

/** The words with the largest weights on a patch, the largest first. */
export function lookedThere({ map, query, weights }: Look, patch: number): { label: string; weight: number }[] {
  return Array.from({ length: weights.rows }, (_, row) => ({
    label: short(query.labels[map.step + row] ?? String(map.step + row), 20),
    weight: weights.at(row, patch),
  }))
    .filter(({ weight }) => weight > 0 && Number.isFinite(weight))
    .sort((one, other) => other.weight - one.weight)
    .slice(0, NAMED);
}
