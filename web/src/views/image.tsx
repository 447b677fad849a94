// Image: what each word looked at, as the part of the picture that is not veiled.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number, short } from "../labels";
import { type Look, useLoaded } from "../look";
import { Switch, Waiting } from "../parts";
import { moment, useSay } from "../readout";
import { useColours } from "../theme";
import type { PageAxis, PageMap, PageTrace, View, ViewProps } from "../types";
import { drawMarks, drawOverlay, type Marks, type Overlay } from "./image_overlay";
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
  if (!look || (address && !picture)) return <Waiting error={error ?? broken} />;
  return <ImageOf {...props} look={look} picture={picture} sites={sites} />;
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

type ImageProps = ViewProps & { look: Look; picture: HTMLImageElement | null; sites: string[] };

function ImageOf({ trace, state, set, look, picture, sites }: ImageProps) {
  const { map, weights, key } = look;
  const inward = map.query === map.key; // patches look at patches: a click chooses the one that looks
  const veil = Math.max(0, Math.min(1, Number(state.more["image.veil"] ?? 0.85)));
  const smooth = state.more["image.smooth"] !== false;
  const named = useMemo(() => ({ ...look, key: placed(key), query: inward ? placed(key) : look.query }), [look]);
  const at = state.hover ?? state;
  useSay(moment(named, trace.about, inward ? state.step : at.step, at.key));
  const overlay = (step: number): Overlay => {
    const row =
      step - map.step >= 0 && step - map.step < weights.rows ? weights.row(step - map.step) : new Float32Array(0);
    return { axis: key, image: picture, row, largest: strongEnd(largestOf(row).value, row.length), veil, smooth };
  };
  const words = weights.rows > 1 && !inward;
  // A pointer that moves over the picture draws it alone, not all the small ones.
  const small = useMemo(
    () => words && <Overlays look={look} overlay={overlay} step={state.step} pick={(step) => set({ step })} />,
    [words, look, picture, veil, smooth, state.step],
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
      caption={<Caption look={look} step={state.step} picture={picture !== null} smooth={smooth} inward={inward} />}
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
  const [columns, rows] = [axis.width || 1, axis.height || 1];
  const marks: Marks = {
    hover: state.hover?.key ?? -1,
    locked: state.key ?? -1,
    from: inward ? state.step : -1,
    exact: look.weights.exact,
  };
  const canvas = useCanvas(width, height, (ctx) => {
    drawOverlay(ctx, overlay, colours, width, height);
    drawMarks(ctx, overlay, marks, colours, width, height);
  });
  const patch = (event: PointerEvent | MouseEvent) => {
    const frame = canvas.current!.getBoundingClientRect();
    const column = Math.floor(((event.clientX - frame.left) / frame.width) * columns);
    const row = Math.floor(((event.clientY - frame.top) / frame.height) * rows);
    return Math.max(0, Math.min(rows - 1, row)) * columns + Math.max(0, Math.min(columns - 1, column));
  };
  const pick = (key: number) => set(inward ? { step: key, key: null } : { key: key === state.key ? null : key });
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
        onClick={(event) => pick(patch(event))}
        onKeyDown={keyed}
      />
    </div>
  );
}

const WINDOW = 60; // small pictures at once

function Overlays({
  look,
  overlay,
  step,
  pick,
}: {
  look: Look;
  overlay(step: number): Overlay;
  step: number;
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
        </button>
      ))}
    </div>
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
  step,
  picture,
  smooth,
  inward,
}: {
  look: Look;
  step: number;
  picture: boolean;
  smooth: boolean;
  inward: boolean;
}) {
  const { weights, map } = look;
  const row = step - map.step;
  return (
    <>
      {row >= 0 &&
        row < weights.rows &&
        `Half of the weight lies on ${halfOf(weights, row)} of ${weights.columns} patches. `}
      {picture
        ? "What is clear was looked at; the more veiled, the less."
        : "The stronger a patch’s colour, the more it was looked at."}
      {smooth && " The veil runs smoothly between the middles of the patches; the numbers are the patches’ own."}
      {inward && " Click a patch to look from there."}
      {look.averaged > 0 && ` This is the mean of ${look.averaged} heads.`}
    </>
  );
}
