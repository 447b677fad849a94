// The keyboard, wherever it is not needed for something else.
import { useEffect, useRef } from "preact/hooks";
import { runsLeft } from "./labels";
import { mapOf, stepsOf } from "./state";
import type { LoadedTrace, State, ViewProps } from "./types";

const KEYS: [string, string][] = [
  ["← →", "one step back or on"],
  ["↑ ↓", "the position before or after, of what is read"],
  ["Home End", "the first or the last step"],
  ["Space", "play or pause"],
  ["Ctrl Z", "undo the last change, where a model answers"],
  ["Escape", "let go of what is locked"],
  ["?", "this list"],
  ["in a matrix: arrows", "move the cell"],
  ["in a matrix: Enter, Escape", "lock the cell, let it go"],
  ["in a matrix: + − 0", "larger, smaller, whole"],
];

interface Keyed {
  trace: LoadedTrace;
  state: State;
  set: ViewProps["set"];
  /** the position that is looked at most: where up and down begin; −1: none */
  most(): number;
  toggle(): void;
  list(): void;
}

/** Whether the key belongs to what has the focus: text is being written, a menu is open, a button is pressed. */
function isTaken(event: KeyboardEvent): boolean {
  const element = event.target instanceof Element ? event.target : null;
  if (
    event.defaultPrevented ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    document.querySelector("dialog[open]")
  )
    return true;
  if (
    element?.closest(
      "input, textarea, select, [contenteditable], [role=slider]:not([aria-disabled=true]), .scroll, audio",
    )
  )
    return true;
  return event.key === " " && !!element?.closest("button, summary, a");
}

export function useKeys(keyed: Keyed): void {
  const now = useRef(keyed);
  now.current = keyed;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!isTaken(event) && pressed(event.key, now.current)) event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function pressed(key: string, { trace, state, set, most, toggle, list }: Keyed): boolean {
  const { axis, first, count } = stepsOf(trace, state);
  // What is written from right to left goes on to the left.
  const on = axis !== null && runsLeft(trace.axis(axis).labels) ? "ArrowLeft" : "ArrowRight";
  const keys = mapOf(trace, state)?.keys ?? 0;
  const move = (by: number) =>
    set({ hover: null, key: keys ? Math.max(0, Math.min(keys - 1, (state.key ?? most()) + by)) : null });
  const go = (step: number) => set({ hover: null, step: Math.max(first, Math.min(first + count - 1, step)) });
  if (key === "ArrowLeft" || key === "ArrowRight") go(state.step + (key === on ? 1 : -1));
  else if (key === "ArrowUp") move(-1);
  else if (key === "ArrowDown") move(1);
  else if (key === "Home") go(first);
  else if (key === "End") go(Infinity);
  else if (key === "Escape") set({ key: null, hover: null });
  else if (key === " ") toggle();
  else if (key === "?") list();
  else return false;
  return true;
}

export function KeyList({ close }: { close(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      class="keys"
      ref={dialog}
      onClose={close}
      aria-label="keys"
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button onClick={() => dialog.current?.close()}>close</button>
    </dialog>
  );
}
