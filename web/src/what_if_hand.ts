// The reader's hand on the weights: what is being dragged, what stands, what the model is being asked.
import { useEffect, useState } from "preact/hooks";
import { worded } from "./look";
import type { Live, LoadedTrace } from "./types";
import {
  askedOf,
  type Change,
  dragged,
  isChanged,
  type Place,
  type Session,
  sessionOf,
  sessionWith,
  setRow,
  undone,
  withChange,
} from "./what_if";

const NO_TEXT = "What this model read is not text, so it cannot be asked again from here.";
export const SAVED = "This is a saved page: run “saccade view RUN --serve” to ask what if.";

/** A row as the hand holds it, before the model was asked. */
export interface Draft {
  key: number;
  row: number[];
  /** the row before the hand came to this key: the others give way in its proportions */
  from: number[];
  /** true: the pointer is still down */
  pressed: boolean;
}

export interface Hand {
  session: Session;
  changed: boolean;
  /** why the model cannot be asked; null: it can */
  reason: string | null;
  /** why this row cannot be dragged; null: it can */
  stuck: string | null;
  draft: Draft | null;
  /** whether the other weights make room */
  room: boolean;
  busy: boolean;
  problem: string | null;
  makeRoom(on: boolean): void;
  drag(key: number, value: number, pressed: boolean): void;
  /** asks the model with the row as it is held */
  keep(): void;
  letGo(): void;
  change(next: Change): void;
  begin(prefix: string | null): void;
  takeBack(change: Change): void;
  takeAllBack(): void;
  /** takes the last change back, of whatever kind; null: there is none */
  undo: (() => void) | null;
}

interface Held {
  trace: LoadedTrace;
  place: Place | null;
  /** the weights as the trace has them */
  row: ArrayLike<number>;
  /** how many of them the model has at this step: what was not written yet cannot be looked at */
  size: number;
  stuck: string | null;
}

export function useHand({ trace, place, row, size, stuck }: Held, live: Live | null): Hand {
  const [draft, hold] = useState<Draft | null>(null);
  const [room, makeRoom] = useState(true);
  const [busy, work] = useState(false);
  const [problem, tell] = useState<string | null>(null);
  const session = sessionOf(trace);
  const reason = !live ? SAVED : askedOf(session.base) !== null ? null : NO_TEXT;
  useEffect(() => {
    hold(null);
    tell(null);
  }, [trace, place?.site, place?.head, place?.step]);
  const ask = async (asked: Session) => {
    if (!live || busy) return;
    work(true);
    tell(null);
    try {
      await live.apply(asked);
    } catch (error) {
      tell(worded(error));
    }
    hold(null);
    work(false);
  };
  const become = (asked: Partial<Session>) => void ask(sessionWith(session, asked));
  const change = (one: Change) => become({ changes: withChange(session.changes, one) });
  const last = undone(session);
  return {
    session,
    changed: isChanged(session),
    reason,
    stuck: reason ?? stuck,
    draft,
    room,
    busy,
    problem,
    makeRoom,
    drag(key, value, pressed) {
      if (reason || stuck || busy || key >= size) return;
      const from = draft?.key === key ? draft.from : (draft?.row ?? Array.from(row).slice(0, size));
      hold({ key, row: dragged(from, key, value, room), from, pressed });
    },
    keep() {
      if (draft && place) change(setRow(place, draft.row, draft.key));
    },
    letGo: () => hold(null),
    change,
    begin: (prefix) => become({ prefix: prefix || null }),
    takeBack: (gone) => become({ changes: session.changes.filter((each) => each !== gone) }),
    takeAllBack: () => become({ changes: [], prefix: null }),
    undo: live && last && (() => void ask(last)),
  };
}
