// The tour: five stops through one step of a decode, said with this trace's own words and numbers.
import { useEffect, useRef, useState } from "preact/hooks";
import { headsOf, useLoaded } from "./look";
import { Said } from "./readout";
import { siteOf } from "./state";
import { usePlace, useRing } from "./tour_place";
import { clearest, type Stop, stopsOf } from "./tour_stops";
import type { State, ViewProps } from "./types";
import { isDecode, loadDecode } from "./views/steps_loading";
import { momentOf } from "./views/steps_moment";
import "./tour.css";

const SEEN = "saccade.tour"; // what a browser remembers of a reader who has been here

type TourProps = Pick<ViewProps, "trace" | "state" | "set">;

/** The button that starts it, and the tour itself. It comes once by itself, to a reader who was never here. */
export function Tour({ trace, state, set }: TourProps) {
  const [open, show] = useState<"no" | "unasked" | "asked">("no");
  const start = useRef<HTMLButtonElement>(null);
  const serves = isDecode(trace);
  useEffect(() => {
    if (serves && isFirstVisit()) show("unasked");
  }, []);
  const end = () => {
    // What has the focus goes away with the card.
    if (document.activeElement?.closest(".tour")) start.current?.focus();
    show("no");
  };
  if (!serves) return null;
  return (
    <>
      <button
        ref={start}
        class="quiet tour-start"
        aria-expanded={open !== "no"}
        onClick={() => show(open === "no" ? "asked" : "no")}
      >
        What am I looking at?
      </button>
      {open !== "no" && <Walk {...{ trace, state, set }} asked={open === "asked"} end={end} />}
    </>
  );
}

/** Who was sent to a place in a page, reads it inside another, or cannot be remembered is not led anywhere unasked. */
function isFirstVisit(): boolean {
  try {
    if (location.hash.length > 1 || window.self !== window.top || localStorage.getItem(SEEN) !== null) return false;
    localStorage.setItem(SEEN, "seen");
    return localStorage.getItem(SEEN) !== null;
  } catch {
    return false;
  }
}

function Walk({ trace, state, set, asked, end }: TourProps & { asked: boolean; end(): void }) {
  const site = siteOf(trace, { site: null });
  // Scores are those of one head: the mean of several has none.
  const heads = site === null ? [] : headsOf(trace, site);
  const head = heads.length > 1 ? (heads[0] ?? null) : null;
  const { value: decode } = useLoaded(() => loadDecode(trace, { site: null, head }), [head], trace);
  const [stop, go] = useState(0);
  useEffect(() => {
    if (decode) set({ view: "steps", site: null, head, key: null, hover: null, step: clearest(decode, state.step) });
  }, [decode]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      end();
    };
    document.addEventListener("keydown", press, true);
    return () => document.removeEventListener("keydown", press, true);
  }, []);
  if (!decode) return null;
  const stops = stopsOf(decode, momentOf(decode, { ...state, hover: null, key: null }, null, []));
  return <Card {...{ stop, go, asked, end, state }} all={stops} />;
}

interface CardProps {
  stop: number;
  all: Stop[];
  go(stop: number): void;
  asked: boolean;
  end(): void;
  state: State;
}

function Card({ stop, all, go, asked, end, state }: CardProps) {
  const now = all[stop]!;
  const card = useRef<HTMLDivElement>(null);
  const ring = useRing(now.at, state.step);
  const place = usePlace(ring, card, stop);
  // Who asked is taken along; who did not keeps the focus where it is.
  useEffect(() => {
    if (asked || stop > 0) card.current?.focus({ preventScroll: true });
  }, [stop]);
  return (
    <>
      {ring && (
        <div
          class="tour-ring"
          style={{
            left: `${ring.left - 6}px`,
            top: `${ring.top - 4}px`,
            width: `${ring.width + 12}px`,
            height: `${ring.height + 8}px`,
          }}
          aria-hidden="true"
        />
      )}
      <div
        class="tour"
        role="dialog"
        aria-modal="false"
        aria-labelledby="tour-title"
        aria-describedby="tour-said"
        tabIndex={-1}
        ref={card}
        style={place}
      >
        <h2 id="tour-title">{now.title}</h2>
        <p id="tour-said">
          <Said parts={now.said} />
        </p>
        <Ways stop={stop} last={all.length - 1} go={go} end={end} />
      </div>
    </>
  );
}

function Ways({ stop, last, go, end }: Pick<CardProps, "stop" | "go" | "end"> & { last: number }) {
  return (
    <div class="tour-bar">
      <span class="tour-count">{`${stop + 1} of ${last + 1}`}</span>
      {stop < last && (
        <button class="quiet" onClick={end}>
          skip
        </button>
      )}
      <button disabled={stop === 0} onClick={() => go(stop - 1)}>
        back
      </button>
      <button onClick={() => (stop < last ? go(stop + 1) : end())}>{stop < last ? "next" : "done"}</button>
    </div>
  );
}
