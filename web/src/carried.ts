// Parts of the page that lie in scripts of their own (src/chunks), which a page carries only where it needs them.
import type { FunctionComponent } from "preact";
import type { Live, LiveInfo, LoadedTrace, ViewProps } from "./types";
import type { Hand } from "./what_if_hand";
import type { PanelProps } from "./what_if_panel";

/** Where a model answers: asking it, and what if. */
export interface Asking {
  liveOf(info: LiveInfo, place: () => number, shown: (trace: LoadedTrace, place: number, fresh: boolean) => void): Live;
  Asking: FunctionComponent<{ live: Live; input: string } & Pick<ViewProps, "state" | "set">>;
  Controls: FunctionComponent<PanelProps>;
  Told: FunctionComponent<PanelProps>;
  Beginning: FunctionComponent<{ hand: Hand }>;
}

export const carried: {
  asking?: Asking;
  Tour?: FunctionComponent<Pick<ViewProps, "trace" | "state" | "set">>;
} = {};
