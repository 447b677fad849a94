// What if, above the picture: what the hand can do, what it did, and what became of the output.
import { useEffect, useState } from "preact/hooks";
import { writtenAxis } from "./footer";
import { number, short } from "./labels";
import { Switch } from "./parts";
import { Said } from "./readout";
import type { LoadedTrace, PageAxis, ViewProps } from "./types";
import { type Change, differing, maskKey, pieces, type Place, saidOf, setRow, uniform } from "./what_if";
import type { Hand } from "./what_if_hand";
import "./what_if.css";

interface PanelProps {
  trace: LoadedTrace;
  hand: Hand;
  place: Place | null;
  axis: PageAxis | null;
  /** the position in focus; −1: none */
  at: number;
  scores: ArrayLike<number> | null;
  size: number;
  sum: number;
  set: ViewProps["set"];
}

/** What was changed, and what came of it; nothing while nothing is. */
export function Told(props: PanelProps) {
  const { hand } = props;
  if (!hand.problem && !hand.changed) return null;
  return (
    <section class="what-if" aria-label="what you changed">
      {hand.problem && (
        <p class="problem" role="alert">
          {hand.problem}
        </p>
      )}
      {hand.changed && <Outcome {...props} />}
    </section>
  );
}

export function Controls({ hand, place, axis, at, scores, size, sum }: PanelProps) {
  const [everywhere, spread] = useState(false);
  const off = !!hand.reason || hand.busy;
  const label = axis && at >= 0 ? short(axis.labels[at] ?? "", 16) : null;
  return (
    <div class="what-if what-if-bar" role="group" aria-label="what if">
      <strong>What if</strong>
      {place && (
        <>
          {!hand.stuck && <span class="hint">drag a weight, or</span>}
          <button
            class="small"
            disabled={off || label === null}
            onClick={() => hand.change(maskKey(place, at, everywhere))}
          >
            hide <bdi dir="auto">{label ?? "a row"}</bdi>
          </button>
          <Switch label="at every step" on={everywhere} set={spread} disabled={!!hand.reason} />
          <button
            class="small"
            disabled={off || !!hand.stuck || size < 1}
            onClick={() => hand.change(setRow(place, uniform(size, scores), null))}
          >
            make all equal
          </button>
          <Switch
            label="others make room"
            on={hand.room}
            set={hand.makeRoom}
            disabled={!!hand.reason}
            title="When one weight changes, the others shrink or grow so that all still add up to 1."
          />
        </>
      )}
      {hand.draft && !hand.draft.pressed && <Holding hand={hand} sum={sum} />}
      {!place && !hand.reason && <span class="hint">it had written something else? Choose it at the right.</span>}
      {hand.busy && <span class="hint">asking the model …</span>}
      {hand.reason && <span class="hint reason">{hand.reason}</span>}
      {!hand.reason && hand.stuck && place && <span class="hint reason">{hand.stuck}</span>}
    </div>
  );
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

/** Both outputs, what differs underlined, and every change with its way back. */
function Outcome({ trace, hand, set }: PanelProps) {
  const { base } = hand.session;
  const [before, now] = [writtenIn(base), writtenIn(trace)];
  const told = differing(before, now);
  const same = !told.before.some(Boolean) && !told.after.some(Boolean);
  return (
    <div class="outcome">
      <dl>
        <dt>before</dt>
        <dd>
          <Written pieces={before} marked={told.before} /> <Score trace={base} />
        </dd>
        <dt>now</dt>
        <dd class="now">
          <Written pieces={now} marked={told.after} /> <Score trace={trace} />
          {same && <span class="hint"> the same</span>}
        </dd>
      </dl>
      <Changes hand={hand} set={set} />
    </div>
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
            <Said parts={saidOf(change, readAt(base, change))} />
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

/** What a change's site looks at. */
function readAt(trace: LoadedTrace, { edit }: Change): PageAxis {
  return trace.axis(trace.maps.find((map) => map.site === edit.site)?.key ?? "");
}

function writtenIn(trace: LoadedTrace): string[] {
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
  const { score } = trace.about;
  return typeof score === "number" ? <span class="hint">{`score ${number(score)}`}</span> : null;
}
