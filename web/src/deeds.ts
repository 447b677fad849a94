// What a model does, by its task: it writes piece by piece, tags words, decides on a label, or scores a candidate.
import type { About, PageAxis, PageMap } from "./types";

export type Deed = "write" | "tag" | "decide" | "score";

/** What is not known to do anything else is said to write. */
export function deedOf(about: About): Deed {
  if (about.task === "label") return "tag";
  if (about.task === "rank") return "score";
  return about.task === "classify" || about.labels || about.probabilities ? "decide" : "write";
}

/** Whether an output can be given a beginning: only what is written has one, and what points chooses among what it read. */
export function canBegin(about: About): boolean {
  return deedOf(about) === "write" && about.task !== "point";
}

/** What one of the likely outputs is. */
export const CHOICES: Record<Deed, string> = {
  write: "next piece",
  tag: "tag",
  decide: "label",
  score: "candidate",
};

/**
 * What a look from one axis at another was for, as the beginning of "to write *5*"; null where it leads to no output: a
 * ranker's candidate looks at the question word by word before it is scored.
 */
export function purposeOf(map: Pick<PageMap, "query">, query: PageAxis, about: About): string | null {
  if (query.kind !== "tokens") return null;
  switch (deedOf(about)) {
    case "write":
      return "to write";
    case "tag":
      return "to tag";
    case "decide":
      return query.labels.length === 1 && about.output === query.labels[0] ? "to decide on" : null;
    case "score":
      return map.query === "score" || map.query === "label" ? "to score the candidate" : null;
  }
}

/** "It wrote *5*": how a sentence about a step's output begins. */
export const DID: Record<Deed, string> = {
  write: "It wrote ",
  tag: "It tagged ",
  decide: "It decided on ",
  score: "It scored the candidate ",
};

/** The output of a position, as the list of likely ones names it; null: there is none, or it is not known. */
export function outputAt(about: About, axis: PageAxis, step: number): string | null {
  const label = axis.labels[step] ?? null;
  switch (deedOf(about)) {
    case "tag":
      return about.tags?.[step] || null;
    case "score":
      return typeof about.output === "string" ? about.output : null;
    default:
      return label;
  }
}
