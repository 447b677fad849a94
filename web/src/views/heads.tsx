// Heads: a wall of all of them, layer by head; one opens into its whole map.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number, runsLeft } from "../labels";
import { type Look, useLoaded, useLook } from "../look";
import { Picker, Waiting } from "../parts";
import { textWidth } from "../pen";
import { useSay, useSentence } from "../readout";
import { ScalePicker } from "../colour_bar";
import { type ScaleName, scaleName } from "../scale";
import { useStill } from "../theme";
import type { LoadedTrace, PageMap, View, ViewProps } from "../types";
import { AlignmentOf } from "./alignment";
import { distances, habitOf, HABITS, headName, type Order, ordered, saidOf } from "./heads_facts";
import { briefly, inOrder, inPlace, siteKinds, type SiteKind } from "./heads_layout";
import { HeadWall } from "./heads_wall";
import "./heads.css";

export const heads: View = {
  id: "heads",
  title: "Heads",
  about: "Every head of every layer as a small picture: find the odd one, then open it.",
  serves: (trace) => trace.maps.length > 1,
  picks: true,
  scrubs: ({ more }) => more["heads.open"] === true,
  // Of a stack that only reads, no single head is the one to begin with.
  front: (trace) => !trace.outputs && trace.maps.length > 3 && trace.maps.every((map) => map.query === map.key),
  Component: Heads,
};

/** What had the focus is gone when a head opens or closes; the keys go on in what took its place, once it is there. */
function useArrival(box: { current: HTMLElement | null }, isThere: boolean, arrives: { current: boolean }): void {
  useLayoutEffect(() => {
    if (!isThere || !arrives.current) return;
    arrives.current = false;
    box.current?.querySelector<HTMLElement>("canvas[role=application]")?.focus({ preventScroll: true });
  }, [isThere]);
}

/** Where the thumbnail that was opened stood, so that its map can grow out of it. */
interface Flight {
  from: DOMRect;
  picture: HTMLCanvasElement;
}

function Heads(props: ViewProps) {
  const { trace, state, set } = props;
  const flight = useRef<Flight | null>(null);
  const isOpen = state.more["heads.open"] === true;
  const arrives = useRef(false);
  const open = (map: PageMap, from: DOMRect, picture: HTMLCanvasElement) => {
    flight.current = { from, picture };
    arrives.current = true;
    set({ site: map.site, head: map.head, key: null, hover: null, more: { "heads.open": true } });
  };
  const back = () => {
    arrives.current = true;
    set({ key: null, hover: null, more: { "heads.open": false } });
  };
  return isOpen ? (
    <OpenHead {...props} flight={flight} arrives={arrives} back={back} />
  ) : (
    <Wall trace={trace} state={state} set={set} arrives={arrives} open={open} />
  );
}

const KINDS: SiteKind[] = ["encoder", "decoder", "cross"];
const ORDERS: Record<Order, string> = {
  place: "in place",
  entropy: "by entropy",
  distance: "by distance from the mean",
};

type WallProps = Pick<ViewProps, "trace" | "state" | "set"> & {
  arrives: { current: boolean };
  open(map: PageMap, from: DOMRect, picture: HTMLCanvasElement): void;
};

function Wall({ trace, state, set, arrives, open }: WallProps) {
  const { value: thumbs, error } = useLoaded(() => thumbsOf(trace), [], trace);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  useArrival(box, !!thumbs, arrives);
  const [hover, tell] = useState<PageMap | null>(null);
  const kinds = useMemo(() => siteKinds(trace), [trace]);
  const there = KINDS.filter((kind) => [...kinds.values()].includes(kind));
  const kind = there.find((each) => each === state.more["heads.kind"]) ?? null;
  const order = (Object.keys(ORDERS) as Order[]).find((each) => each === state.more["heads.sort"]) ?? "place";
  const scale = scaleName(state, Math.max(0, ...trace.maps.map((map) => map.keys)));
  const maps = useMemo(() => trace.maps.filter((map) => kind === null || kinds.get(map) === kind), [kinds, kind]);
  const far = useMemo(() => once(() => distances(maps, thumbs ?? new Map())), [maps, thumbs]);
  const shown = useMemo(() => ordered(maps, order, far), [maps, order, far]);
  const wall = useMemo(() => wallOf(shown, order, width), [shown, order, width]);
  const at = (place: number) => wall.placed[place]?.map ?? null;
  const chosen = wall.placed.findIndex(({ map }) => map.site === state.site && map.head === state.head);
  const said = hover ?? at(chosen);
  useSay(said && saidOf(trace, said));
  const choose = (map: PageMap | null) => map && set({ site: map.site, head: map.head, key: null });
  return (
    <div ref={box}>
      {thumbs ? (
        <Figure
          name="heads"
          controls={
            <>
              <Controls kinds={there} kind={kind} order={order} set={set} />
              <ScalePicker name={scale} set={set} />
            </>
          }
          table={tableOf(shown, far)}
          caption={<Caption maps={shown} order={order} scale={scale} />}
        >
          <HeadWall
            wall={wall}
            thumbs={thumbs}
            scale={scale}
            chosen={chosen}
            onHover={(place) => tell(at(place))}
            onChoose={(place) => choose(at(place))}
            onOpen={(place, from, picture) => open(at(place)!, from, picture)}
          />
        </Figure>
      ) : (
        <Waiting error={error} />
      )}
    </div>
  );
}

const AROUND = 250; // pixels of the page above and below the wall

function wallOf(maps: PageMap[], order: Order, width: number) {
  const sites = [...new Set(maps.map((map) => map.site))];
  const nameWidth = Math.max(...sites.map((site) => textWidth(site)));
  const room = { width, tallest: window.innerHeight - AROUND, nameWidth };
  return order === "place" ? inPlace(maps, room) : inOrder(maps, room, shortNames(sites));
}

/** "enc 3 · 5": where there is no room for more. */
function shortNames(sites: string[]): (map: PageMap) => string {
  const brief = briefly(sites);
  return ({ site, head }) => [brief.get(site), ...(head === null ? [] : [head])].join(" · ");
}

type Chosen = { kinds: SiteKind[]; kind: SiteKind | null; order: Order; set: ViewProps["set"] };

function Controls({ kinds, kind, order, set }: Chosen) {
  return (
    <>
      {kinds.length > 1 && (
        <Picker
          label="show"
          value={kind ?? ""}
          choices={[{ value: "", label: "all" }, ...kinds.map((value) => ({ value, label: value }))]}
          pick={(value) => set({ more: { "heads.kind": value } })}
        />
      )}
      <Picker
        label="order"
        value={order}
        choices={Object.entries(ORDERS).map(([value, label]) => ({ value, label }))}
        pick={(value) => set({ more: { "heads.sort": value } })}
      />
    </>
  );
}

function once<T>(work: () => T): () => T {
  let found: { value: T } | null = null;
  return () => (found ??= { value: work() }).value;
}

async function thumbsOf(trace: LoadedTrace): Promise<Map<PageMap, Uint8Array>> {
  const found = new Map<PageMap, Uint8Array>();
  for (const map of trace.maps) {
    // All thumbnails lie in one block: only the first of them waits.
    const thumb = await trace.thumb(map);
    const left = thumb && runsLeft(trace.axis(map.key).labels);
    if (thumb) found.set(map, left ? mirrored(thumb, map.thumb!.columns) : thumb);
  }
  return found;
}

/** Each row from its other end. */
function mirrored(thumb: Uint8Array, columns: number): Uint8Array {
  return thumb.map((_, i) => thumb[i - (i % columns) + columns - 1 - (i % columns)]!);
}

const SCALED: Record<ScaleName, string> = {
  map: "each map has its own scale, and an even look is pale",
  row: "each row has its own scale, and an even look is pale",
  even: "relative to an even look, in equal ratios",
  shared: "the same from 0 to 1 for all",
};

function Caption({ maps, order, scale }: { maps: PageMap[]; order: Order; scale: ScaleName }) {
  const said = [
    `Each picture is one head: queries down, keys across. Colours: ${SCALED[scale]}.`,
    "The line below it is its entropy: full when it looks everywhere alike.",
  ];
  if (order === "entropy") said.push("The narrowest looks come first.");
  if (order === "distance")
    said.push("Those that differ most from the mean come first: half the difference of their rows in these pictures.");
  if (maps.some((map) => map.thumb && (map.thumb.rows < map.queries || map.thumb.columns < map.keys)))
    said.push("Where a map is larger than its picture, the strongest weight of each part shows.");
  return <>{said.join(" ")}</>;
}

function tableOf(shown: PageMap[], far: () => Map<PageMap, number>): Table {
  const habits = HABITS.filter((habit) => shown.some((map) => map.habits?.[habit] !== undefined));
  const name = shortNames([...new Set(shown.map((map) => map.site))]);
  return {
    corner: "site · head",
    columns: ["entropy (nats)", "distance", ...habits.map((habit) => `on ${habit}`)],
    rows: shown.length,
    rowLabel: (row) => name(shown[row]!),
    cell(row, column) {
      const map = shown[row]!;
      if (column === 0) return number(map.entropy, true, 3);
      return number(column === 1 ? far().get(map) : map.habits?.[habits[column - 2]!], true, 3);
    },
  };
}

interface OpenProps extends ViewProps {
  flight: { current: Flight | null };
  arrives: { current: boolean };
  back(): void;
}

function OpenHead({ trace, state, set, flight, arrives, back }: OpenProps) {
  const { value: look, error } = useLook(trace, state);
  const box = useRef<HTMLDivElement>(null);
  const still = useStill();
  useSay(useSentence(look, trace.about, state));
  useArrival(box, !!look, arrives);
  useEscape(() => state.key === null && back(), [state.key]);
  useLayoutEffect(() => {
    const { from, picture } = flight.current ?? {};
    const canvas = box.current?.querySelector("canvas");
    if (!look || !from || !picture || !canvas) return;
    flight.current = null;
    if (!still) fly(picture, from, cellsOf(canvas));
  }, [look]);
  return (
    <div ref={box}>
      <Bar trace={trace} look={look} set={set} back={back} />
      {look ? (
        <AlignmentOf key={look.map.key} name="head" look={look} gold={trace.about.gold} state={state} set={set} />
      ) : (
        <Waiting error={error} />
      )}
    </div>
  );
}

function Bar({ trace, look, set, back }: Pick<OpenProps, "trace" | "set" | "back"> & { look: Look | null }) {
  const map = look?.map ?? null;
  const place = trace.maps.findIndex((each) => each.site === map?.site && each.head === map?.head);
  const beside = (by: number, label: string, sign: string) => {
    const next = place < 0 ? undefined : trace.maps[place + by];
    const go = () => next && set({ site: next.site, head: next.head, key: null, hover: null });
    return (
      <button class="quiet" aria-label={label} disabled={!next} onClick={go}>
        {sign}
      </button>
    );
  };
  return (
    <div class="heads-bar">
      <button class="quiet" onClick={back}>
        ← all heads
      </button>
      {beside(-1, "the head before", "◂")}
      <span>{map && (look?.averaged ? `${map.site}, mean of ${look.averaged} heads` : headName(map))}</span>
      {beside(1, "the next head", "▸")}
      {map && !look?.averaged && <span class="habit">{habitOf(trace, map)}</span>}
    </div>
  );
}

/** Escape leaves the open head, unless something nearer wants it: a locked cell, a dialog, a menu. */
function useEscape(leave: () => void, depends: unknown[]): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (event.target instanceof Element && event.target.closest("input, select, textarea")) return;
      leave();
    };
    document.addEventListener("keydown", press, true);
    return () => document.removeEventListener("keydown", press, true);
  }, depends);
}

/** Where the cells of a heatmap stand in the window. */
function cellsOf(canvas: HTMLCanvasElement): DOMRect {
  const box = canvas.getBoundingClientRect();
  const [left = 0, top = 0, across = box.width, down = box.height] = canvas.dataset.cells?.split(" ").map(Number) ?? [];
  return new DOMRect(box.left + left, box.top + top, across, down);
}

const FLIGHT = 240; // milliseconds

/** A copy of the thumbnail grows to where its map stands, and gives way to it. */
function fly(picture: HTMLCanvasElement, from: DOMRect, to: DOMRect): void {
  picture.className = "heads-ghost";
  picture.style.cssText = `left:${to.left}px;top:${to.top}px;width:${to.width}px;height:${to.height}px`;
  document.body.append(picture);
  const [x, y] = [from.width / to.width, from.height / to.height];
  const start = `translate(${from.left - to.left}px, ${from.top - to.top}px) scale(${x}, ${y})`;
  const stages = [{ transform: start }, { transform: "none", opacity: 0.95, offset: 0.8 }, { opacity: 0 }];
  const flown = picture.animate(stages, { duration: FLIGHT, easing: "ease-out" });
  flown.onfinish = flown.oncancel = () => picture.remove();
}
