// Equations as text: letters in italics, indices below, values of the trace filled in. No library, no pictures.
import { Fragment } from "preact";
import { equals, number } from "./labels";
import type { About } from "./types";

/** `e_{7,15} = v^{⊤} tanh(W s_{6})`: what follows _ stands below, what follows ^ above; single letters are italic. */
export function Maths({ text }: { text: string }) {
  return (
    <>
      {text.split(/([_^]\{[^}]*\})/).map((part, i) => {
        if (part.startsWith("_{")) return <sub key={i}>{part.slice(2, -1)}</sub>;
        if (part.startsWith("^{")) return <sup key={i}>{part.slice(2, -1)}</sup>;
        return (
          <Fragment key={i}>
            {part
              .split(/(\p{L}+)/u)
              .map((word) => ([...word].length === 1 && /\p{L}/u.test(word) && word !== "Σ" ? <i>{word}</i> : word))}
          </Fragment>
        );
      })}
    </>
  );
}

/** An equation and what it comes to. */
export function Equation({ text, value }: { text: string; value?: string }) {
  return (
    <span class="equation">
      <Maths text={text} />
      {value !== undefined && (
        <>
          {equals(value)}
          <b>{value}</b>
        </>
      )}
    </span>
  );
}

/** What looks and what is looked at, as this model's papers write them. */
interface Letters {
  query: string;
  key: string;
}

/** These look from a decoder's state at an encoder's: RNNsearch's of the step before, the others' of the step. */
const BEFORE = new Set(["rnnsearch"]);
const NOW = new Set(["luong", "pointer"]);
/** These ask the same of every text: what would be a query is learned, and is part of the score. */
const POOLS: Record<string, string> = { additive: "v^{⊤} tanh(W h + b)", dot: "v^{⊤} h" };

function lettersOf(about: About, step: number, key: number): Letters {
  const model = about.model ?? "";
  if (BEFORE.has(model)) return { query: `s_{${step - 1}}`, key: `h_{${key}}` };
  if (NOW.has(model)) return { query: `s_{${step}}`, key: `h_{${key}}` };
  return { query: `q_{${step}}`, key: `k_{${key}}` };
}

/** The right side of e = …, by the name of the score; a score nobody here knows is called a score. */
function scoreOf(name: string | undefined, { query: s, key: h }: Letters, key: number, step: number): string {
  const forms: Record<string, string> = {
    additive: `v^{⊤} tanh(W ${s} + U ${h})`,
    concat: `v^{⊤} tanh(W ${s} + U ${h})`,
    general: `${s}^{⊤} W ${h}`,
    dot: `${s}^{⊤} ${h}`,
    scaled_dot: `${s}^{⊤} ${h} / √d`,
    location: `(W ${s})_{${key}}`,
    cosine: `β cos(${s}, ${h})`,
    location_aware: `v^{⊤} tanh(W ${s} + U ${h} + L (F ∗ α_{${step - 1}})_{${key}} + b)`,
  };
  return (name !== undefined && Object.hasOwn(forms, name) && forms[name]) || `score(${s}, ${h})`;
}

export function scoreEquation(about: About, site: string, step: number, key: number): string {
  const pooled = about.model === "attentive_classifier" ? POOLS[about.scores?.[site] ?? ""] : undefined;
  if (pooled) return `e_{${step},${key}} = ${pooled.replace(/\bh\b(?=( \+|$))/, `h_{${key}}`)}`;
  return `e_{${step},${key}} = ${scoreOf(about.scores?.[site], lettersOf(about, step, key), key, step)}`;
}

/** How a row of weights came about, as far as the page could check it. */
export type Weighed =
  { by: "softmax"; score: number } | { by: "other"; name: string | null } | { by: "hand" } | { by: "unknown" };

export function weightEquation(step: number, key: number, weighed: Weighed): string {
  const left = `α_{${step},${key}}`;
  if (weighed.by === "softmax")
    return `${left} = exp(${number(Math.round(100 * weighed.score) / 100)}) / Σ_{i} exp(e_{${step},i})`;
  if (weighed.by !== "other") return left;
  // "softmax · gain": what comes after the normaliser multiplies its weights.
  const [name, ...gains] = (weighed.name ?? "normalise").split(" · ");
  return `${left} = ${[`${name!.replace(/\(.*$/, "")}(e_{${step}})_{${key}}`, ...gains].join(" · ")}`;
}

/**
 * c = Σ α h where that was checked; what was summed is otherwise not in the page, and is called v. Of several heads the
 * context is theirs, one after the other.
 */
export function contextEquation(step: number, checked: boolean, heads = 1): string {
  if (heads > 1) return `c_{${step}} = [c_{${step}}^{1}; …; c_{${step}}^{${heads}}]`;
  return `c_{${step}} = Σ_{i} α_{${step},i} ${checked ? "h" : "v"}_{i}`;
}

/** How the state came about: known of RNNsearch, whose state takes in the context; nothing is claimed of others. */
export function stateEquation(about: About, step: number): string | null {
  return BEFORE.has(about.model ?? "") ? `s_{${step}} = f(s_{${step - 1}}, y_{${step - 1}}, c_{${step}})` : null;
}

/** null: nothing is claimed of a model that is not known. */
export function outputEquation(about: About, step: number): string | null {
  const forms: Record<string, string> = {
    rnnsearch: `g(s_{${step - 1}}, y_{${step - 1}}, c_{${step}})`,
    luong: `g(s_{${step}}, c_{${step}})`,
    pointer: `α_{${step}}`,
    transformer: `softmax(W s_{${step}})`,
    seq2seq: `g(s_{${step}}, …)`,
    attentive_classifier: `softmax(W c_{${step}} + b)`,
  };
  const model = about.model ?? "";
  return Object.hasOwn(forms, model) ? `p_{${step}} = ${forms[model]}` : null;
}
