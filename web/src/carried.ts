// Parts of the page that lie in scripts of their own (src/chunks), which a page carries only where it needs them.
import type { FunctionComponent } from "preact";
import type { AskingProps } from "./asking";
import type { Show } from "./live";
import type { MeasuringProps } from "./measuring";
import type * as recording from "./recording";
import type { SheetProps } from "./sheet";
import type { Live, LiveInfo, LoadedTrace, ViewProps } from "./types";
import type { Hand } from "./what_if_hand";
import type { PanelProps } from "./what_if_panel";

/** Where a model answers: asking it, and what if. */
export interface Asking {
  liveOf(info: LiveInfo, given: LoadedTrace[], place: () => number, shown: Show): Live;
  Asking: FunctionComponent<AskingProps>;
  Controls: FunctionComponent<PanelProps>;
  Told: FunctionComponent<PanelProps>;
  Beginning: FunctionComponent<{ hand: Hand }>;
  Measuring: FunctionComponent<MeasuringProps>;
}

export const carried: {
  asking?: Asking;
  sound?: Pick<typeof recording, "Recorder" | "readable">;
  Sheet?: FunctionComponent<SheetProps>;
  Tour?: FunctionComponent<Pick<ViewProps, "trace" | "state" | "set">>;
} = {};
