// What if, above the picture: what the hand can do, what it did, and what became of the output.
import { useEffect, useRef, useState } from "preact/hooks";
import { actionOf } from "./output_kind";
import { writtenAxis } from "./footer";
import { number, short, wordAt } from "./labels";
import { Switch } from "./parts";
import { Said } from "./readout";
import type { LoadedTrace, PageAxis, ViewProps } from "./types";
import { type Change, differing, evenRow, maskKeys, pieces, type Place, saidOf, textOf, touches } from "./what_if";
import type { Hand } from "./what_if_hand";
import "./what_if.css";

const NOT_YET = "The answer to a change stands here.";

export interface PanelProps {
  trace: LoadedTrace;
  hand: Hand;
  place: Place | null;
  axis: PageAxis | null;
  /** the position to hide: the chosen one, else the one looked at most; −1: none. What the pointer passes over is neither. */
  at: number;
  size: number;
  sum: number;
  set: ViewProps["set"];
}

/**
 * What was changed, and what came of it. Where a model can be asked its room is there from the start: the picture below
 * must not move when the answer comes.
 */
export function Told({ trace, hand, sum, set }: PanelProps) {
  if (hand.reason) return null;
  return (
    <section class="what-if" aria-label={hand.changed ? "what you changed" : `what it ${verbOf(trace)}`}>
      <div class={hand.changed ? "outcome changed" : "outcome"}>
        <Outcome trace={trace} hand={hand} sum={sum} />
        <div class="changes-room">{hand.changed && <Changes hand={hand} set={set} />}</div>
      </div>
    </section>
  );
}

export function Controls({ hand, place, axis, at, size, set }: PanelProps) {
  const [everywhere, spread] = useState(false);
  const off = !!hand.reason || hand.busy;
  useUndo(hand);
  return (
    <div class="what-if what-if-bar" role="group" aria-label="what if">
      <strong>What if</strong>
      {place && (
        <>
          {!hand.stuck && <span class="hint">drag a weight, or</span>}
          <Hide
            {...{ hand, place, axis, at, set, off }}
            hide={(keys) => hand.change(maskKeys(place, keys, everywhere))}
          />
          <button class="small" disabled={off || size < 1} onClick={() => hand.change(evenRow(place, everywhere))}>
            make all equal
          </button>
          <Switch label="at every step" on={everywhere} set={spread} disabled={!!hand.reason} />
          <Switch
            label="others make room"
            on={hand.room}
            set={hand.makeRoom}
            disabled={!!hand.reason}
            title="When one weight changes, the others shrink or grow so that all still add up to 1."
          />
        </>
      )}
      {!place && !hand.reason && <span class="hint">it had written something else? Choose it at the right.</span>}
      {hand.reason && <span class="hint reason">{hand.reason}</span>}
      {!hand.reason && hand.stuck && place && <span class="hint reason">{hand.stuck}</span>}
      {!hand.reason && (
        <button class="small" title="Ctrl Z" disabled={off || !hand.undo} onClick={() => hand.undo?.()}>
          undo
        </button>
      )}
    </div>
  );
}

type HideProps = Pick<PanelProps, "hand" | "axis" | "at" | "set"> & {
  place: Place;
  off: boolean;
  hide(keys: number[]): void;
};

/** Hides a position or its whole word; what is hidden already is shown again. */
function Hide({ hand, place, axis, at, set, off, hide }: HideProps) {
  if (!axis || at < 0)
    return (
      <button class="small" disabled>
        hide a row
      </button>
    );
  const hidden = hand.session.changes.find((change) => touches(change, place) && change.edit.keys?.includes(at));
  const { from, to } = wordAt(axis, at);
  const word = Array.from({ length: to - from }, (_, i) => from + i);
  const asked = (keys: number[]) => {
    set({ key: at }); // what weighs nothing any more is still what the button speaks of
    hide(keys);
  };
  const button = (verb: string, keys: number[], act: () => void) => (
    <button key={verb + keys.length} class="small" disabled={off} onClick={act}>
      {verb} <bdi dir="auto">{short(textOf(axis, keys), 16)}</bdi>
    </button>
  );
  if (hidden) return button("show", hidden.edit.keys!, () => hand.takeBack(hidden));
  return (
    <>
      {button("hide", [at], () => asked([at]))}
      {word.length > 1 && button("hide", word, () => asked(word))}
    </>
  );
}

/** Ctrl Z, except where text is written: it has its own. */
function useUndo({ undo, busy }: Hand): void {
  const now = useRef<(() => void) | null>(null);
  now.current = busy ? null : undo;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const writes = event.target instanceof Element && event.target.closest("input:not([type=checkbox]), textarea");
      if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey || writes) return;
      event.preventDefault();
      now.current?.();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

/** A beginning that the output must have. */
export function Beginning({ hand }: { hand: Hand }) {
  const off = !!hand.reason || hand.busy;
  const { prefix } = hand.session;
  const [text, write] = useState(prefix ?? "");
  useEffect(() => write(prefix ?? ""), [prefix, hand.session.base]);
  const go = (event: Event) => {
    event.preventDefault();
    hand.begin(text);
  };
  return (
    <form class="beginning" data-export="no" onSubmit={go}>
      <label>
        <span>begin with</span>
        <input
          type="text"
          dir="auto"
          title={hand.reason ?? undefined}
          value={text}
          disabled={!!hand.reason}
          onInput={(event) => write(event.currentTarget.value)}
        />
      </label>
      {!hand.reason && (
        <button class="small" type="submit" disabled={off || text === (prefix ?? "")}>
          go
        </button>
      )}
    </form>
  );
}

/** A row that is held and not yet asked about. */
function Holding({ hand, sum }: { hand: Hand; sum: number }) {
  return (
    <span class="holding">
      <span>{`adds up to ${number(sum)}`}</span>
      <button class="small" disabled={hand.busy} onClick={hand.keep}>
        ask the model
      </button>
      <button class="quiet" onClick={hand.letGo}>
        let go
      </button>
    </span>
  );
}

/** Both outputs, what differs underlined; until there is a second, what is to come stands over the room it will need. */
function Outcome({ trace, hand, sum }: Pick<PanelProps, "trace" | "hand" | "sum">) {
  const { changed, session } = hand;
  const [before, now] = [writtenIn(session.base), writtenIn(trace)];
  const differs = differing(before, now);
  // The candidate stays the same; what becomes different is its score and its place.
  const fixed = actionOf(trace.about) === "score";
  const same = !fixed && !differs.before.some(Boolean) && !differs.after.some(Boolean);
  const holds = !!hand.draft && !hand.draft.pressed && !hand.busy;
  const told = hand.problem ?? (hand.busy ? "asking the model …" : changed ? null : NOT_YET);
  const waits = holds ? <Holding hand={hand} sum={sum} /> : told;
  return (
    <dl>
      <dt>{changed ? "before" : verbOf(trace)}</dt>
      <dd>
        <Written pieces={before} marked={differs.before} /> <Score trace={session.base} />
      </dd>
      <dt>{changed ? "now" : ""}</dt>
      <dd class="now">
        <span class={waits ? "covered" : undefined} aria-hidden={waits ? "true" : undefined}>
          <Written pieces={now} marked={differs.after} /> <Score trace={trace} />
          {same && changed && <span class="hint"> the same</span>}
        </span>
        {waits && (
          <span class={hand.problem ? "waits refused" : "waits"} role={hand.problem && !holds ? "alert" : undefined}>
            {waits}
          </span>
        )}
      </dd>
    </dl>
  );
}

function Changes({ hand, set }: Pick<PanelProps, "hand" | "set">) {
  const { base, changes, prefix } = hand.session;
  const go = (change: Change) => change.edit.step !== null && set({ step: change.edit.step, key: change.key });
  return (
    <ul class="changes" aria-label="your changes">
      {changes.map((change, i) => (
        <li key={i}>
          <button class="link" disabled={change.edit.step === null} onClick={() => go(change)}>
            <Said parts={saidOf(change, base)} />
          </button>
          <button class="quiet" disabled={hand.busy} onClick={() => hand.takeBack(change)}>
            take back
          </button>
        </li>
      ))}
      {prefix !== null && (
        <li>
          <span>
            begins with{" "}
            <bdi dir="auto" class="token">
              {short(prefix, 40)}
            </bdi>
          </span>
          <button class="quiet" disabled={hand.busy} onClick={() => hand.begin(null)}>
            take back
          </button>
        </li>
      )}
      {changes.length + (prefix === null ? 0 : 1) > 1 && (
        <li>
          <button class="quiet" disabled={hand.busy} onClick={hand.takeAllBack}>
            take all back
          </button>
        </li>
      )}
    </ul>
  );
}

/** Tags, labels and candidates are said; only text is written. */
function verbOf({ about }: LoadedTrace): string {
  return actionOf(about) === "write" ? "wrote" : "said";
}

function writtenIn(trace: LoadedTrace): string[] {
  // The step of a ranker is its score, which stands beside what it put first.
  if (actionOf(trace.about) === "score" && typeof trace.about.output === "string") return [trace.about.output];
  const axis = writtenAxis(trace) ?? trace.outputs?.axis;
  if (axis) return pieces(trace.axis(axis));
  return typeof trace.about.output === "string" ? [trace.about.output] : [];
}

function Written({ pieces: all, marked }: { pieces: string[]; marked: boolean[] }) {
  if (!all.length) return <bdi>∅</bdi>;
  return (
    <bdi dir="auto" class="written">
      {all.map((piece, i) => (marked[i] ? <u key={i}>{piece}</u> : piece))}
    </bdi>
  );
}

function Score({ trace }: { trace: LoadedTrace }) {
  const { score, output, probabilities } = trace.about;
  if (typeof score !== "number") return null;
  const ranks = actionOf(trace.about) === "score";
  const all = ranks && probabilities ? Object.entries(probabilities) : [];
  const better = all.filter(([text, probability]) => text !== output && Number(probability) > score);
  const place = all.length > 1 ? `, place ${better.length + 1} of ${all.length}` : "";
  // Of a candidate the score is all that changes, often by little.
  return <span class="hint">{`score ${number(score, true, ranks ? 3 : 2)}${place}`}</span>;
}
