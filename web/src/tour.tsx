// The tour: five stops through one step of a decode, said with this trace's own words and numbers.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isSpecial, number, short, wordAt } from "./labels";
import { headsOf, useLoaded } from "./look";
import { Said } from "./readout";
import { siteOf } from "./state";
import { useStill } from "./theme";
import type { LoadedTrace, Part, State, ViewProps } from "./types";
import { type Decode, isDecode, loadDecode } from "./views/steps_loading";
import { type Moment, momentOf } from "./views/steps_moment";
import { heaviest } from "./views/steps_numbers";
import { pieces } from "./what_if";
import "./tour.css";

const SEEN = "saccade.tour"; // what a browser remembers of a reader who has been here

interface Stop {
  title: string;
  said: Part[];
  /** what it points at: everything that this selector finds */
  at: string;
}

type TourProps = Pick<ViewProps, "trace" | "state" | "set">;

/** The button that starts it, and the tour itself. It comes once by itself, to a reader who was never here. */
export function Tour({ trace, state, set }: TourProps) {
  const [open, show] = useState<"no" | "unasked" | "asked">("no");
  const serves = isDecode(trace);
  useEffect(() => {
    if (serves && isFirstVisit()) show("unasked");
  }, []);
  if (!serves) return null;
  return (
    <>
      <button class="quiet tour-start" aria-expanded={open !== "no"} onClick={() => show(open === "no" ? "asked" : "no")}>
        What am I looking at?
      </button>
      {open !== "no" && <Walk {...{ trace, state, set }} asked={open === "asked"} end={() => show("no")} />}
    </>
  );
}

/** Somebody who was sent to a place in a page, or reads it inside another, is not led elsewhere. Who cannot be remembered is not asked. */
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

const TURNED = 0.5; // of a full weight: what it is worth that something is turned into something else, not copied

/** The step that shows most: it looks at one word, and writes something that is not in it. */
function clearest({ look }: Decode, step: number): number {
  if (!look) return step;
  let best = { step: look.map.step, worth: -1 };
  for (let row = 0; row < look.weights.rows; row++) {
    const weights = look.weights.row(row);
    const key = heaviest(weights);
    const written = look.query.labels[look.map.step + row] ?? "";
    if (key < 0 || isSpecial(look.key, key) || isSpecial(look.query, look.map.step + row)) continue;
    const { text, from, to } = wordAt(look.key, key);
    const share = weights.slice(from, to).reduce((sum, weight) => sum + weight, 0);
    const worth = share + (text.includes(written.trim()) ? 0 : TURNED);
    if (worth > best.worth) best = { step: look.map.step + row, worth };
  }
  return best.step;
}

function stopsOf(decode: Decode, moment: Moment): Stop[] {
  const { look, trace } = decode;
  const token = (text: string): Part => ({ token: short(text, 40) });
  const input = trace.about.input;
  const read: Part[] = typeof input === "string" && input ? ["The model has read ", token(input)] : ["The model has read its input"];
  const before = moment.written === null ? "" : pieces(trace.axis(look?.map.query ?? trace.outputs?.axis ?? ""), 0, moment.step).join("");
  const sofar: Part[] = [...read, ...(before.trim() ? [" and written ", token(before), " so far. "] : [". It writes step by step. "])];
  return [...(look ? lookStops(decode, moment, sofar) : plainStops(decode, sofar)), outputStop(moment, !!look), againStop(trace, !!look)];
}

function lookStops({ look, read }: Decode, { scores, row, key, exact }: Moment, sofar: Part[]): Stop[] {
  const axis = look!.key;
  const here: Part = { token: short(axis.labels[key] ?? "", 24) };
  const word = key < 0 ? { text: "", from: 0, to: 0 } : wordAt(axis, key);
  const inWord: Part[] = word.to - word.from > 1 ? [" in ", { token: short(word.text, 24) }] : [];
  const top: Part[] = scores && key >= 0 ? [` The highest is ${number(scores[key])}, for `, here, ...inWord, "."] : [" (These were not kept here.)"];
  const share = Array.from({ length: word.to - word.from }, (_, i) => row[word.from + i] ?? 0).reduce((sum, weight) => sum + weight, 0);
  const states = read ? `Each position has a state h, a list of ${read.values.columns} numbers. ` : "Each position has a state: a list of numbers. ";
  return [
    { title: "Scores", at: scores ? ".steps .at-e" : ".steps .at-label", said: [...sofar, "To find what comes next it gives each position it read a score e: how well does this fit now?", ...top] },
    { title: "Softmax: scores become weights", at: ".steps .at-a", said: ["A score can be any number. Softmax turns the scores into weights α, none below zero and together 1: how the looking is shared out. ", { token: short(word.text, 24) }, ` gets ${number(share, exact)} of it.`] },
    { title: "Context", at: ".steps .at-r, .steps .at-c", said: [states, `The model adds the states up, each as much as its weight says${isNarrow() ? "" : "; the ribbons show how much comes from where"}. The sum is the context c: what it takes from the input at this step.`] },
  ];
}

function plainStops({ read }: Decode, sofar: Part[]): Stop[] {
  const size = read ? `${read.values.columns} numbers` : "a list of numbers";
  return [
    { title: "Reading", at: ".steps .at-h", said: [...sofar, `After each position its state is ${size}: what it made of the input so far.`] },
    { title: "The bottleneck", at: ".steps .at-r, .steps .at-b", said: ["Only the last state goes on. Everything the model will ever know about the input has to fit into it: it cannot look back."] },
    { title: "State", at: ".steps .at-s", said: ["From that vector the decoder starts, and changes its own state s with everything it writes."] },
  ];
}

function outputStop({ likely, written }: Moment, looks: boolean): Stop {
  const found = likely.find((each) => each.label === written) ?? likely[0];
  const told: Part[] = found ? [{ token: short(found.label, 24) }, ` has probability ${number(found.probability)}.`, found.label === written ? " It was written." : ""] : ["How likely they were was not kept here."];
  return { title: "Output", at: ".steps .at-p", said: [looks ? "From the context and its own state s" : "From its state", " the model works out how likely each next piece is. ", ...told] };
}

function againStop(trace: LoadedTrace, looks: boolean): Stop {
  const axis = trace.axis(trace.outputs?.axis ?? trace.maps.at(-1)?.query ?? "");
  const count = axis.labels.length;
  const last = axis.labels.at(-1) ?? "";
  const ended: Part[] = trace.about.stopped === "eos" ? [" it wrote ", { token: short(last, 24) }, ", which means stop."] : [" it came to its end."];
  return {
    title: "And again, until it stops",
    at: ".scrubber",
    said: [looks ? "Then the same for the next piece: new scores, new weights, a new context. " : "Then the same for the next piece, from the changed state. ", `After ${count} steps`, ...ended, " Press play to watch, or choose any step."],
  };
}

interface CardProps {
  stop: number;
  all: Stop[];
  go(stop: number): void;
  asked: boolean;
  end(): void;
  state: State;
}

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
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
      {ring && <div class="tour-ring" style={{ left: `${ring.left - 6}px`, top: `${ring.top - 4}px`, width: `${ring.width + 12}px`, height: `${ring.height + 8}px` }} aria-hidden="true" />}
      <div class="tour" role="dialog" aria-modal="false" aria-labelledby="tour-title" aria-describedby="tour-said" tabIndex={-1} ref={card} style={place}>
        <h2 id="tour-title">{now.title}</h2>
        <p id="tour-said">
          <Said parts={now.said} />
        </p>
        <div class="tour-bar">
          <span class="count">{`${stop + 1} of ${all.length}`}</span>
          <button class="quiet" onClick={end}>
            {stop + 1 < all.length ? "skip" : "close"}
          </button>
          <button disabled={stop === 0} onClick={() => go(stop - 1)}>
            back
          </button>
          {stop + 1 < all.length ? <button onClick={() => go(stop + 1)}>next</button> : <button onClick={end}>done</button>}
        </div>
      </div>
    </>
  );
}

/** Where on the screen the things lie that a stop points at, all of them in one box; they are brought into sight first. */
function useRing(selector: string, step: number): Box | null {
  const [box, measure] = useState<Box | null>(null);
  const still = useStill();
  useLayoutEffect(() => {
    const look = () => measure(around(selector));
    const bring = () => {
      const found = around(selector);
      const by = found && (isNarrow() ? found.top - TOP : found.top < 0 || found.top > innerHeight - 160 ? found.top - innerHeight / 3 : 0);
      if (by) scrollBy({ top: by, behavior: still ? "auto" : "smooth" });
      look();
    };
    bring();
    const later = setTimeout(bring, 300); // the view may only now be coming up
    addEventListener("scroll", look, true);
    addEventListener("resize", look);
    return () => {
      clearTimeout(later);
      removeEventListener("scroll", look, true);
      removeEventListener("resize", look);
    };
  }, [selector, step]);
  return box;
}

const TOP = 24; // pixels above what is pointed at on a narrow screen, whose lower part the card takes

function isNarrow(): boolean {
  return innerWidth <= 720;
}

function around(selector: string): Box | null {
  const boxes = [...document.querySelectorAll(selector)]
    .map((each) => each.getBoundingClientRect())
    .filter((box) => box.width && box.height);
  if (!boxes.length) return null;
  const left = Math.min(...boxes.map((box) => box.left));
  const top = Math.min(...boxes.map((box) => box.top));
  const right = Math.max(...boxes.map((box) => box.right));
  return { left, top, width: right - left, height: Math.max(...boxes.map((box) => box.bottom)) - top };
}

const [GAP, WIDE] = [18, 340];

/** Beside the ring, where there is room; on a narrow screen at the edge that the ring leaves free. */
function usePlace(ring: Box | null, card: { current: HTMLDivElement | null }, stop: number): Record<string, string> {
  const [tall, measure] = useState(180);
  useLayoutEffect(() => measure(card.current?.offsetHeight ?? 180), [stop, ring?.width]);
  if (!ring || isNarrow()) {
    const edge = ring && ring.top > innerHeight / 2 ? "top" : "bottom";
    return { left: "12px", right: "12px", [edge]: "12px" };
  }
  const top = Math.max(8, Math.min(innerHeight - tall - 8, ring.top + Math.max(0, Math.min(80, ring.height / 2 - tall / 2))));
  const right = ring.left + ring.width + GAP;
  if (right + WIDE < innerWidth) return { left: `${right}px`, top: `${top}px`, width: `${WIDE}px` };
  if (ring.left - GAP - WIDE > 0) return { left: `${ring.left - GAP - WIDE}px`, top: `${top}px`, width: `${WIDE}px` };
  return { left: `${Math.max(8, (innerWidth - WIDE) / 2)}px`, top: `${Math.max(8, ring.top - tall - GAP)}px`, width: `${WIDE}px` };
}
