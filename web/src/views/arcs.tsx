// Arcs: tokens and lines between them, as wide and as dark as one looks at the other.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { redraws } from "../exporting";
import { Figure, type Table } from "../figure";
import { grouped } from "../grouping";
import { useWidth } from "../heatmap";
import { lineOf, number, short } from "../labels";
import { type Look, useLook } from "../look";
import { Showing, Waiting } from "../parts";
import { canvasPen, svgPen } from "../pen";
import { useSay } from "../readout";
import { useColours } from "../theme";
import type { Part, View, ViewProps } from "../types";
import { type Arcs, arriving, choose, leaving } from "./arcs_choice";
import {
  draw,
  type Frame,
  frameOf,
  keyY,
  queryY,
  rowsInView,
  type Scene,
  type Shown,
  type Token,
  tokenAt,
} from "./arcs_drawing";
import "./arcs.css";

export const arcs: View = {
  id: "arcs",
  title: "Arcs",
  about: "Tokens and arcs between them, as wide as one looks at the other.",
  serves: (trace) => trace.maps.some((map) => map.kind !== "edges" && map.queries > 0 && map.keys > 1),
  Component: ArcsView,
};

function ArcsView({ trace, state, set }: ViewProps) {
  const { value: look, error } = useLook(trace, state);
  if (!look) return <Waiting error={error} />;
  return <ArcsOf key={`${look.map.query} ${look.map.key}`} look={look} state={state} set={set} />;
}

const SHARE = 0.5;

function ArcsOf({ look, state, set }: { look: Look } & Pick<ViewProps, "state" | "set">) {
  const { map } = look;
  const rows = useMemo(
    () => lineOf(look.query, state, map.step, map.step + map.queries),
    [look, state.special, state.words],
  );
  const columns = useMemo(() => lineOf(look.key, state, 0, map.keys), [look, state.special, state.words]);
  const scene = useMemo<Scene>(
    () => ({
      isLine: map.query === map.key,
      matrix: grouped(look.weights, rows, columns, map.step),
      rowLabels: rows.labels,
      columnLabels: columns.labels,
      columnOf: (row) => columns.group[rows.from[row] ?? -1] ?? -1,
      rowOf: (column) => rows.group[columns.from[column] ?? -1] ?? -1,
    }),
    [look, rows, columns],
  );
  const wanted = Number(state.more["arcs.mass"] ?? SHARE);
  const share = wanted >= 0 && wanted <= 1 ? wanted : SHARE;
  const chosen = useMemo(() => choose(scene.matrix, share), [scene, share]);
  const into = useMemo(() => arriving(chosen, scene.columnLabels.length), [chosen]);
  const locked = lockOf(state, scene, rows.group, columns.group);
  const [hover, tell] = useState<Token | null>(null);
  const focus = hover ?? locked;
  const near = useMemo(() => linksOf(scene, chosen, into, focus), [scene, chosen, focus?.side, focus?.at]);
  useSay(focus && saidOf(scene, chosen, near, focus));
  const pick = (token: Token | null) => {
    if (!token) return set({ key: null, more: { "arcs.lock": "" } });
    const position = token.side === "query" ? rows.from[token.at] : columns.from[token.at];
    const row = scene.isLine ? scene.rowOf(token.at) : -1;
    if (token.side === "query") set({ step: position ?? state.step, key: null, more: { "arcs.lock": "query" } });
    else set({ key: position ?? null, ...(row >= 0 ? { step: rows.from[row]! } : {}), more: { "arcs.lock": "key" } });
  };
  const controls = (
    <>
      <Mass share={share} set={(value) => set({ more: { "arcs.mass": value } })} />
      <Showing axes={[look.query, look.key]} state={state} set={set} />
    </>
  );
  return (
    <Figure
      name="arcs"
      controls={controls}
      table={tableOf(scene, chosen)}
      caption={<Caption look={look} scene={scene} arcs={chosen} share={share} />}
    >
      {scene.matrix.rows && scene.columnLabels.length ? (
        <Picture
          name={`${map.site}: ${map.query} looking at ${map.key}`}
          scene={scene}
          arcs={chosen}
          near={near}
          focus={focus}
          locked={locked}
          onHover={tell}
          onPick={pick}
        />
      ) : (
        <p class="empty">There are no tokens to draw arcs between.</p>
      )}
    </Figure>
  );
}

function lockOf(state: ViewProps["state"], scene: Scene, rowGroup: Int32Array, columnGroup: Int32Array): Token | null {
  const side = state.more["arcs.lock"];
  const at =
    side === "query" ? rowGroup[state.step] : side === "key" && state.key !== null ? columnGroup[state.key] : undefined;
  if (at === undefined || at < 0) return null;
  if (scene.isLine) return { side: "key", at: side === "query" ? scene.columnOf(at) : at };
  return { side: side as Token["side"], at };
}

function Mass({ share, set }: { share: number; set(share: number): void }) {
  return (
    <label class="arcs-mass" title="of each row, the fewest arcs that together hold this much of its weight">
      weight shown
      <input
        type="range"
        min="0.05"
        max="1"
        step="0.05"
        value={share}
        onInput={(event) => set(Number(event.currentTarget.value))}
      />
      <output>{`${Math.round(100 * share)} %`}</output>
    </label>
  );
}

interface Links {
  out: number[];
  into: number[];
}

function linksOf(scene: Scene, chosen: Arcs, into: (column: number) => number[], focus: Token | null): Links {
  if (!focus) return { out: [], into: [] };
  if (focus.side === "query") return { out: leaving(chosen, focus.at), into: [] };
  return { out: scene.isLine ? leaving(chosen, scene.rowOf(focus.at)) : [], into: into(focus.at) };
}

const MOST = 3; // tokens that the sentence names

function saidOf(
  { isLine, matrix, rowLabels, columnLabels }: Scene,
  chosen: Arcs,
  { out, into }: Links,
  focus: Token,
): Part[] {
  const listed = (links: number[], labels: string[], ends: Int32Array): Part[] => {
    const named = links
      .slice(0, MOST)
      .flatMap((i, n): Part[] => [
        n ? ", " : "",
        { token: short(labels[ends[i]!] ?? "", 40) },
        ` (${number(chosen.weight[i]!, matrix.exact)})`,
      ]);
    return links.length > MOST ? [...named, ` and ${links.length - MOST} more`] : named;
  };
  const token: Part = { token: short((focus.side === "query" ? rowLabels : columnLabels)[focus.at] ?? "", 40) };
  const said: Part[] = [];
  if (focus.side === "query" || isLine)
    said.push(
      "At ",
      token,
      out.length ? " it looked at " : " it looked at nothing",
      ...listed(out, columnLabels, chosen.column),
      ". ",
    );
  if (focus.side === "key")
    said.push(
      ...(isLine ? ["It"] : [token]),
      into.length ? " was looked at from " : " was looked at from nowhere that is shown",
      ...listed(into, rowLabels, chosen.row),
      ".",
    );
  return said;
}

function tableOf({ rowLabels, columnLabels, matrix }: Scene, { row, column, weight }: Arcs): Table {
  return {
    corner: "from",
    columns: ["to", "weight"],
    rows: weight.length,
    rowLabel: (i) => rowLabels[row[i]!] ?? "",
    cell: (i, c) => (c === 0 ? short(columnLabels[column[i]!] ?? "", 40) : number(weight[i], matrix.exact, 3)),
  };
}

function Caption({ look, scene, arcs: chosen, share }: { look: Look; scene: Scene; arcs: Arcs; share: number }) {
  const { map, weights } = look;
  const said = [`For each position the fewest arcs that together hold ${Math.round(100 * share)} % of its weight.`];
  if (scene.isLine) said.push("Arcs at the left look back, those at the right ahead; of a chosen token, coloured ones leave it, plain ones reach it.");
  if (look.averaged) said.push(`This is the mean of ${look.heads.length} heads.`);
  if (weights.partial) said.push("The line below a token is the weight that was not kept.");
  if (chosen.short)
    said.push(`For ${chosen.short} of ${scene.matrix.rows} positions less than that was kept, and all of it is drawn.`);
  if (chosen.broken) said.push(`${chosen.broken} positions have weights that are not numbers; those are not drawn.`);
  if (!weights.exact) said.push("Numbers are rounded to keep the page small (≈).");
  return <>{said.join(" ")}</>;
}

interface PictureProps {
  name: string;
  scene: Scene;
  arcs: Arcs;
  near: Links;
  focus: Token | null;
  locked: Token | null;
  onHover(token: Token | null): void;
  onPick(token: Token | null): void;
}

const CAPTION = 56; // pixels below the picture
const TALLEST = 860;
const DRAWN = 12_000; // arcs at once: more are no picture, and no quick one

function Picture({ name, scene, arcs: chosen, near, focus, locked, onHover, onPick }: PictureProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const colours = useColours();
  const tallest = useTallest(box);
  const [scrolled, scroll] = useState(0);
  const frame = frameOf(scene, width, tallest, scrolled);
  const drawn = useMemo(() => inView(scene, frame, chosen), [scene, chosen, frame.queryTop, frame.height]);
  useLayoutEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx) return;
    const density = window.devicePixelRatio || 1;
    element.width = Math.round(frame.width * density);
    element.height = Math.round(frame.height * density);
    ctx.setTransform(density, 0, 0, density, 0, 0);
    const shown: Shown = { arcs: chosen, drawn, ...near, focus };
    draw(canvasPen(ctx), scene, frame, shown, colours);
    redraws.set(element, () => {
      const out: string[] = [];
      draw(svgPen(out), scene, frame, shown, colours);
      return out.join("");
    });
  });
  useEffect(() => void (locked && reveal(box.current, scene, frame, locked)), [locked?.side, locked?.at]);
  const at = (event: MouseEvent) => tokenAt(scene, frame, event.offsetX, event.offsetY);
  const over = (token: Token | null) => (token?.side !== focus?.side || token?.at !== focus?.at) && onHover(token);
  const click = (event: MouseEvent) => {
    const token = at(event);
    onPick(token && locked && token.side === locked.side && token.at === locked.at ? null : token);
  };
  return (
    <div
      class="arcs-window"
      ref={box}
      role="application"
      aria-roledescription="arcs"
      aria-label={`${name}: ${scene.rowLabels.length} looking at ${scene.columnLabels.length}. Arrows move, Escape lets go.`}
      tabIndex={0}
      style={{ height: `${frame.height}px` }}
      onScroll={(event) => scroll(event.currentTarget.scrollTop)}
      onKeyDown={(event) => keyed(event, scene, locked, onPick)}
    >
      <div style={{ height: `${frame.all}px` }}>
        <canvas
          ref={canvas}
          style={{ width: `${frame.width}px`, height: `${frame.height}px` }}
          onPointerMove={(event) => over(at(event))}
          onPointerLeave={() => onHover(null)}
          onClick={click}
        />
      </div>
    </div>
  );
}

/** The height with which the picture, its caption and the footer fit the window together. */
function useTallest(box: { current: HTMLElement | null }): number {
  const [height, tell] = useState(480);
  useLayoutEffect(() => {
    const measure = () => {
      const top = (box.current?.getBoundingClientRect().top ?? 0) + scrollY;
      const foot = document.querySelector<HTMLElement>(".footer")?.offsetHeight ?? 0;
      tell(Math.max(320, Math.min(TALLEST, innerHeight - top - foot - CAPTION)));
    };
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return height;
}

/** The arcs of the tokens in the window, the weakest first so that the strongest lie above. */
function inView(scene: Scene, frame: Frame, chosen: Arcs): number[] {
  const found = rowsInView(scene, frame).flatMap((row) => leaving(chosen, row));
  found.sort((a, b) => chosen.weight[a]! - chosen.weight[b]!);
  return found.length > DRAWN ? found.slice(found.length - DRAWN) : found;
}

/** Scrolls the window just so far that a token is in it. */
function reveal(box: HTMLElement | null, scene: Scene, frame: Frame, token: Token): void {
  if (!box || frame.all <= frame.height) return;
  const y = token.side === "key" ? keyY(frame, token.at) : queryY(scene, frame, token.at);
  const [own, top] =
    token.side === "key" ? [scene.columnLabels.length, frame.keyTop] : [scene.rowLabels.length, frame.queryTop];
  const far =
    y < frame.line ? y - 2 * frame.line : y > frame.height - frame.line ? y - frame.height + 2 * frame.line : 0;
  const most = own * frame.line + 8 - frame.height;
  // Two columns of unequal length scroll by the same share.
  if (far && most > 0) box.scrollTop = ((top + far) / most) * (frame.all - frame.height);
}

const STEPS: Record<string, number> = {
  ArrowUp: -1,
  ArrowDown: 1,
  PageUp: -10,
  PageDown: 10,
  Home: -Infinity,
  End: Infinity,
};

function keyed(event: KeyboardEvent, scene: Scene, locked: Token | null, onPick: (token: Token | null) => void): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const side = locked?.side ?? (scene.isLine ? "key" : "query");
  const count = (each: Token["side"]) => (each === "query" ? scene.rowLabels.length : scene.columnLabels.length);
  const by = STEPS[event.key];
  const clamped = (each: Token["side"], at: number): Token => ({
    side: each,
    at: Math.max(0, Math.min(count(each) - 1, at)),
  });
  if (by !== undefined) onPick(clamped(side, locked ? locked.at + by : by > 1 ? by : 0));
  else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !scene.isLine)
    onPick(clamped(event.key === "ArrowLeft" ? "query" : "key", locked?.at ?? 0));
  else if (event.key === "Escape" && locked) onPick(null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
