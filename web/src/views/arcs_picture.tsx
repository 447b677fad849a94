// The window on the tokens: it scrolls, a token under the hand or the keys stands out with its arcs.
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useDrawn } from "../drawn";
import { useWidth } from "../heatmap";
import { number } from "../labels";
import { OnSheet, useColours } from "../theme";
import { type Arcs, leaving, type Links } from "./arcs_choice";
import {
  draw,
  type Frame,
  frameOf,
  keyY,
  queryY,
  rowsInView,
  type Scene,
  type Token,
  tokenAt,
  wholeOf,
} from "./arcs_drawing";

interface PictureProps {
  name: string;
  scene: Scene;
  arcs: Arcs;
  near: Links;
  focus: Token | null;
  locked: Token | null;
  /** where the sentence below stands: its token is marked and kept in the window */
  here: Token | null;
  onHover(token: Token | null): void;
  onPick(token: Token | null): void;
}

const UNCHOSEN = { near: { out: [], into: [] }, focus: null, locked: null, here: null };
const CAPTION = 56; // pixels below the picture
const TALLEST = 860;
const SCROLLBAR = 16;
const DRAWN = 12_000; // arcs at once: more are no picture, and no quick one

export function Picture(props: PictureProps) {
  const { name, scene, arcs, onHover, onPick } = props;
  const sheet = useContext(OnSheet);
  const { near, focus, locked, here } = sheet ? UNCHOSEN : props;
  const outer = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(outer);
  const colours = useColours();
  const tallest = useTallest(outer);
  const [scrolled, scroll] = useState(0);
  const frame = frameOf(scene, width, tallest, scrolled);
  const { drawn, all } = useMemo(() => inView(scene, frame, arcs), [scene, arcs, frame.queryTop, frame.height]);
  const whole = wholeOf(scene, frame);
  useDrawn(canvas, frame.width, frame.height, (pen, _, ctx) => {
    if (ctx) return draw(pen, scene, frame, { arcs, drawn, ...near, focus, here }, colours);
    // A picture that leaves the page cannot be scrolled.
    const leaving = inView(scene, whole, arcs);
    draw(pen, scene, whole, { arcs, drawn: leaving.drawn, ...near, focus }, colours);
    if (leaving.all > DRAWN)
      pen.text(cutOff(leaving.all, "the"), whole.left, whole.height + CUT / 2, { fill: colours.quiet });
  });
  useEffect(() => void (here && reveal(box.current, scene, frame, here)), [here?.side, here?.at, width, tallest]);
  const at = (event: MouseEvent) => tokenAt(scene, frame, event.offsetX, event.offsetY);
  const over = (token: Token | null) => (token?.side !== focus?.side || token?.at !== focus?.at) && onHover(token);
  const click = (event: MouseEvent) => {
    const token = at(event);
    onPick(token && locked && token.side === locked.side && token.at === locked.at ? null : token);
  };
  const sizes = `${scene.rowLabels.length} looking at ${scene.columnLabels.length}`;
  return (
    <div ref={outer}>
      <div
        class={scene.isLine ? "arcs-window line" : "arcs-window"}
        ref={box}
        role="application"
        aria-roledescription="arcs"
        aria-label={`${name}: ${sizes}. Arrow keys move, Escape lets go.`}
        tabIndex={0}
        style={{ width: `${Math.min(width, frame.width + SCROLLBAR)}px`, height: `${frame.height}px` }}
        onScroll={(event) => scroll(event.currentTarget.scrollTop)}
        onKeyDown={(event) => keyed(event, scene, locked, onPick)}
      >
        <div style={{ height: `${frame.all}px` }}>
          <canvas
            ref={canvas}
            data-whole={[whole.width, whole.height + CUT].join(" ")}
            style={{ width: `${frame.width}px`, height: `${frame.height}px` }}
            onPointerMove={(event) => over(at(event))}
            onPointerLeave={() => onHover(null)}
            onClick={click}
          />
        </div>
      </div>
      {all > DRAWN && (
        <p class="arcs-cut" data-export="no">
          {cutOff(all, "here the")}
        </p>
      )}
    </div>
  );
}

const CUT = 24; // pixels for a line that says so

function cutOff(all: number, which: string): string {
  return `Of ${number(all, true, 0)} arcs ${which} ${number(DRAWN, true, 0)} strongest are drawn.`;
}

/** The height with which the picture, its caption and the footer fit the window together. */
function useTallest(box: { current: HTMLElement | null }): number {
  const [height, tell] = useState(480);
  useLayoutEffect(() => {
    const measure = () => {
      const top = (box.current?.getBoundingClientRect().top ?? 0) + scrollY;
      const foot = document.querySelector<HTMLElement>(".footer")?.offsetHeight ?? 0;
      tell(Math.floor(Math.max(320, Math.min(TALLEST, innerHeight - top - foot - CAPTION))));
    };
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return height;
}

/** The arcs of the tokens in the window, the weakest first so that the strongest lie above. */
function inView(scene: Scene, frame: Frame, chosen: Arcs): { drawn: number[]; all: number } {
  const found = rowsInView(scene, frame).flatMap((row) => leaving(chosen, row));
  found.sort((a, b) => chosen.weight[a]! - chosen.weight[b]!);
  return { drawn: found.slice(-DRAWN), all: found.length };
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
  const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
  const by = sideways && scene.isLine ? (event.key === "ArrowLeft" ? -1 : 1) : STEPS[event.key];
  const clamped = (each: Token["side"], at: number): Token => ({
    side: each,
    at: Math.max(0, Math.min(count(each) - 1, at)),
  });
  if (by !== undefined) onPick(clamped(side, locked ? locked.at + by : by > 1 ? by : 0));
  else if (sideways) onPick(clamped(event.key === "ArrowLeft" ? "query" : "key", locked?.at ?? 0));
  else if (event.key === "Escape" && locked) onPick(null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
