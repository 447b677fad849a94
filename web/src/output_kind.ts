// What a model's output is, as its task declares it: text that it writes step by step, tags, a label, a ranking, …
import type { About, PageAxis, PageMap } from "./types";

export type OutputKind = "text" | "continuation" | "label" | "tags" | "ranking" | "order" | "number" | "image";

/** What a model does to give such an output. */
export type Action = "write" | "tag" | "decide" | "score";

const ACTIONS: Record<OutputKind, Action> = {
  text: "write",
  continuation: "write",
  order: "write",
  image: "write",
  tags: "tag",
  label: "decide",
  number: "decide",
  ranking: "score",
};

/** The declared kind; of a trace that declares none (a model from elsewhere), what it holds says it. */
export function outputKind(about: About): OutputKind {
  if (about.output_kind && about.output_kind in ACTIONS) return about.output_kind;
  if (about.tags) return "tags";
  return about.labels || about.probabilities ? "label" : "text";
}

export function actionOf(about: About): Action {
  return ACTIONS[outputKind(about)];
}

/** Whether an output can be given a beginning: only written text has one. */
export function canBegin(about: About): boolean {
  const kind = outputKind(about);
  return kind === "text" || kind === "continuation";
}

/** Whether a position was not written but given: part of a language model's prompt. */
export function isGiven(about: About, step: number): boolean {
  return typeof about.given === "number" && step < about.given;
}

/** What one of the likely outputs is. */
export const CHOICES: Record<Action, string> = {
  write: "next piece",
  tag: "tag",
  decide: "label",
  score: "candidate",
};

/**
 * What a look from one axis at another was for, as the beginning of "to write *5*"; null where it leads to no output: a
 * ranker's candidate looks at the question word by word before it is scored.
 */
export function purposeOf(map: Pick<PageMap, "query">, query: PageAxis, about: About, step: number): string | null {
  if (query.kind !== "tokens") return null;
  switch (actionOf(about)) {
    case "write":
      return isGiven(about, step) ? null : "to write";
    case "tag":
      return "to tag";
    case "decide":
      return query.labels.length === 1 && about.output === query.labels[0] ? "to decide on" : null;
    case "score":
      return map.query === "score" || map.query === "label" ? "to score the candidate" : null;
  }
}

/** "It wrote *5*": how a sentence about a step's output begins. */
export const DID: Record<Action, string> = {
  write: "It wrote ",
  tag: "It tagged ",
  decide: "It decided on ",
  score: "It scored the candidate ",
};

/** The output of a position, as the list of likely ones names it; null: there is none, or it is not known. */
export function outputAt(about: About, axis: PageAxis, step: number): string | null {
  const label = axis.labels[step] ?? null;
  switch (actionOf(about)) {
    case "tag":
      return about.tags?.[step] || null;
    case "score":
      return typeof about.output === "string" ? about.output : null;
    default:
      return label;
  }
}
