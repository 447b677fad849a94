// The views, in the order of their tabs. A page shows those that serve its trace. These are in every page; the others are
// in scripts of their own (src/chunks), which a page carries where its traces need them.
import type { View } from "../types";
import { alignment } from "./alignment";
import { arcs } from "./arcs";
import { steps } from "./steps";

const ORDER = [
  "steps",
  "alignment",
  "heads",
  "arcs",
  "document",
  "image",
  "audio",
  "graph",
  "timeline",
  "beam",
  "truth",
  "compare",
];

export const VIEWS: View[] = [steps, alignment, arcs];

/** The views of another script, which runs before anything is drawn. */
export function add(...views: View[]): void {
  VIEWS.push(...views);
  VIEWS.sort((one, other) => ORDER.indexOf(one.id) - ORDER.indexOf(other.id));
}
