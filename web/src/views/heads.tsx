// Heads: a wall of all of them, layer by head; one opens into its whole map.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number } from "../labels";
import { useLoaded, useLook } from "../look";
import { Picker, Waiting } from "../parts";
import { textWidth } from "../pen";
import { moment, useSay } from "../readout";
import { useStill } from "../theme";
import type { LoadedTrace, PageMap, View, ViewProps } from "../types";
import { AlignmentOf } from "./alignment";
import { distances, habitOf, HABITS, headName, type Order, ordered, saidOf } from "./heads_facts";
import { briefly, inOrder, inPlace, siteKind, type SiteKind } from "./heads_layout";
import { HeadWall } from "./heads_wall";
import "./heads.css";

export const heads: View = {
  id: "heads",
  title: "Heads",
  about: "Every head of every layer as a small picture: find the odd one, then open it.",
  serves: (trace) => trace.maps.length > 1,
  picks: true,
  Component: Heads,
};

/** Where the thumbnail that was opened stood, so that its map can grow out of it. */
interface Flight {
  from: DOMRect;
  picture: HTMLCanvasElement;
}

function Heads(props: ViewProps) {
  const { trace, state, set } = props;
  const flight = useRef<Flight | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const isOpen = state.more["heads.open"] === true;
  const was = useRef(isOpen);
  useLayoutEffect(() => {
    if (was.current === isOpen) return;
    was.current = isOpen;
    // What had the focus is gone; the keys go on in what took its place.
    box.current?.querySelector<HTMLElement>("canvas[role=application]")?.focus({ preventScroll: true });
  });
  const open = (map: PageMap, from: DOMRect, picture: HTMLCanvasElement) => {
    flight.current = { from, picture };
    set({ site: map.site, head: map.head, key: null, hover: null, more: { "heads.open": true } });
  };
  const back = () => set({ key: null, hover: null, more: { "heads.open": false } });
  return (
    <div ref={box}>
      {isOpen ? (
        <OpenHead {...props} flight={flight} back={back} />
      ) : (
        <Wall trace={trace} state={state} set={set} open={open} />
      )}
    </div>
  );
}

const KINDS: SiteKind[] = ["encoder", "decoder", "cross"];
const ORDERS: Record<Order, string> = {
  place: "in place",
  entropy: "by entropy",
  distance: "by distance from the mean",
};

type WallProps = Pick<ViewProps, "trace" | "state" | "set"> & {
  open(map: PageMap, from: DOMRect, picture: HTMLCanvasElement): void;
};

function Wall({ trace, state, set, open }: WallProps) {
  const { value: thumbs, error } = useLoaded(() => thumbsOf(trace), [], trace);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [hover, tell] = useState<PageMap | null>(null);
  const kinds = useMemo(() => new Map(trace.maps.map((map) => [map, siteKind(trace, map)])), [trace]);
  const there = KINDS.filter((kind) => [...kinds.values()].includes(kind));
  const kind = there.find((each) => each === state.more["heads.kind"]) ?? null;
  const order = (Object.keys(ORDERS) as Order[]).find((each) => each === state.more["heads.sort"]) ?? "place";
  const maps = useMemo(() => trace.maps.filter((map) => kind === null || kinds.get(map) === kind), [trace, kind]);
  const far = useMemo(
    () =>
      once(() =>
        distances(
          maps,
          maps.map((map) => thumbs?.get(map) ?? null),
        ),
      ),
    [maps, thumbs],
  );
  const shown = useMemo(() => ordered(maps, order, far), [maps, order, far]);
  const wall = useMemo(() => {
    const sites = [...new Set(shown.map((map) => map.site))];
    const room = {
      width,
      tallest: window.innerHeight - 250,
      nameWidth: Math.max(...sites.map((site) => textWidth(site))),
    };
    const brief = briefly(sites);
    return order === "place"
      ? inPlace(shown, room)
      : inOrder(shown, room, (map) => [brief.get(map.site), ...(map.head === null ? [] : [map.head + 1])].join(" · "));
  }, [shown, order, width]);
  const chosen = shown.findIndex((map) => map.site === state.site && map.head === state.head);
  const said = hover ?? shown[chosen] ?? null;
  useSay(said && saidOf(trace, said));
  const choose = (place: number) =>
    shown[place] && set({ site: shown[place].site, head: shown[place].head, key: null });
  const controls = (
    <>
      {there.length > 1 && (
        <Picker
          label="show"
          value={kind ?? ""}
          choices={[{ value: "", label: "all" }, ...there.map((value) => ({ value, label: value }))]}
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
  return (
    <div ref={box}>
      {thumbs ? (
        <Figure
          name="heads"
          controls={controls}
          table={tableOf(shown, maps, far)}
          caption={<Caption maps={shown} order={order} />}
        >
          <HeadWall
            wall={wall}
            thumbs={thumbs}
            chosen={chosen}
            onHover={(place) => tell(shown[place] ?? null)}
            onChoose={choose}
            onOpen={(place, from, picture) => shown[place] && open(shown[place], from, picture)}
          />
        </Figure>
      ) : (
        <Waiting error={error} />
      )}
    </div>
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
    if (thumb) found.set(map, thumb);
  }
  return found;
}

function Caption({ maps, order }: { maps: PageMap[]; order: Order }) {
  const said = [
    "Each picture is one head: queries down, keys across, its own largest weight strongest.",
    "The line below it is its entropy: full when it looks everywhere alike.",
  ];
  if (order === "entropy") said.push("The narrowest looks come first.");
  if (order === "distance")
    said.push(
      "Those that differ most from the mean come first: half the difference of their rows, as these pictures show them.",
    );
  if (maps.some((map) => map.thumb && (map.thumb.rows < map.queries || map.thumb.columns < map.keys)))
    said.push("Where a map is larger than its picture, the strongest weight of each part shows.");
  return <>{said.join(" ")}</>;
}

function tableOf(shown: PageMap[], maps: PageMap[], far: () => (number | null)[]): Table {
  const habits = HABITS.filter((habit) => shown.some((map) => map.habits?.[habit] !== undefined));
  return {
    corner: "head",
    columns: ["entropy (nats)", "distance", ...habits.map((habit) => `on ${habit}`)],
    rows: shown.length,
    rowLabel: (row) => headName(shown[row]!),
    cell(row, column) {
      const map = shown[row]!;
      if (column === 0) return number(map.entropy, true, 3);
      if (column === 1) return number(far()[maps.indexOf(map)], true, 3);
      return number(map.habits?.[habits[column - 2]!], true, 3);
    },
  };
}

function OpenHead({
  trace,
  state,
  set,
  flight,
  back,
}: ViewProps & { flight: { current: Flight | null }; back(): void }) {
  const { value: look, error } = useLook(trace, state);
  const box = useRef<HTMLDivElement>(null);
  const still = useStill();
  const map = look?.map ?? null;
  const at = state.hover ?? state;
  useSay(look && moment(look, trace.about, at.step, at.key));
  useEscape(() => state.key === null && back(), [state.key]);
  useLayoutEffect(() => {
    const { from, picture } = flight.current ?? {};
    const canvas = box.current?.querySelector("canvas");
    if (!look || !from || !picture || !canvas) return;
    flight.current = null;
    if (!still) fly(picture, from, canvas.getBoundingClientRect());
  }, [look]);
  const place = trace.maps.findIndex((each) => each.site === map?.site && each.head === map?.head);
  const go = (by: number) => {
    const next = trace.maps[place + by];
    if (next) set({ site: next.site, head: next.head, key: null, hover: null });
  };
  return (
    <div ref={box}>
      <div class="heads-bar">
        <button class="quiet" onClick={back}>
          ← all heads
        </button>
        <button class="quiet" aria-label="the head before" disabled={place <= 0} onClick={() => go(-1)}>
          ◂
        </button>
        <span class="name">
          {map && (look?.averaged ? `${map.site}, mean of ${look.heads.length} heads` : headName(map))}
        </span>
        <button
          class="quiet"
          aria-label="the next head"
          disabled={place < 0 || place + 1 >= trace.maps.length}
          onClick={() => go(1)}
        >
          ▸
        </button>
        {map && !look?.averaged && <span class="habit">{habitOf(trace, map)}</span>}
      </div>
      {look ? (
        <AlignmentOf key={look.map.key} name="head" look={look} gold={trace.about.gold} state={state} set={set} />
      ) : (
        <Waiting error={error} />
      )}
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

const FLIGHT = 240; // milliseconds

/** A copy of the thumbnail grows to where its map stands, and gives way to it. */
function fly(picture: HTMLCanvasElement, from: DOMRect, to: DOMRect): void {
  const side = Math.min(to.width, to.height);
  picture.className = "heads-ghost";
  picture.style.cssText = `left:${to.left}px;top:${to.top}px;width:${side}px;height:${side}px`;
  document.body.append(picture);
  const start = `translate(${from.left - to.left}px, ${from.top - to.top}px) scale(${from.width / side})`;
  const flown = picture.animate(
    [
      { transform: start, opacity: 1 },
      { opacity: 0.9, offset: 0.7 },
      { transform: "none", opacity: 0 },
    ],
    { duration: FLIGHT, easing: "cubic-bezier(.2,.7,.3,1)" },
  );
  flown.onfinish = flown.oncancel = () => picture.remove();
}
