// Equations as text: letters in italics, indices below, values of the trace filled in. No library, no pictures.
import { Fragment } from "preact";
import { type Flow, points, written } from "./flow";
import { equals, number } from "./labels";

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
              .split(/((?:\p{L}\p{M}*)+)/u)
              .map((word) => (/^\p{L}\p{M}*$/u.test(word) && word !== "Σ" ? <i>{word}</i> : word))}
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

/** The right side of e = …, by the name of the score; a score nobody here knows is called a score. */
function scoreOf(name: string | undefined, s: string, h: string, key: number | string, step: number): string {
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

export function scoreEquation(flow: Flow | null, name: string | undefined, step: number, key: number | string): string {
  const query = written(flow?.query.join(", ") || "q[t]", step);
  const read = written(flow?.key ?? "k[j]", step, key);
  const right = flow?.score ? written(flow.score, step, key) : scoreOf(name, query, read, key, step);
  return `e_{${step},${key}} = ${right}`;
}

/** How a row of weights came about, as far as the page could check it. */
export type Weighed =
  { by: "softmax"; score: number } | { by: "other"; name: string | null } | { by: "hand" } | { by: "unknown" };

export function weightEquation(step: number, key: number | string, weighed: Weighed): string {
  const left = `α_{${step},${key}}`;
  if (weighed.by === "softmax")
    return `${left} = exp(${number(Math.round(100 * weighed.score) / 100)}) / Σ_{i} exp(e_{${step},i})`;
  if (weighed.by !== "other") return left;
  // "softmax · gain": what comes after the normaliser multiplies its weights.
  const [name, ...gains] = (weighed.name ?? "normalise").split(" · ");
  return `${left} = ${[`${name!.replace(/\(.*$/, "")}(e_{${step}})_{${key}}`, ...gains].join(" · ")}`;
}

/**
 * c = Σ α h where it was checked that those states were summed; what was summed is otherwise not in the page: `summed` is
 * null, and it is called v. Of several heads the context is theirs, one after the other.
 */
export function contextEquation(step: number, summed: string | null, heads = 1): string {
  if (heads > 1) return `c_{${step}} = [c_{${step}}^{0}; …; c_{${step}}^{${heads - 1}}]`;
  return `c_{${step}} = Σ_{i} α_{${step},i} ${summed ?? "v"}_{i}`;
}

/** How the state came about; null where the model declares none. */
export function stateEquation({ state }: Flow, step: number): string | null {
  const [moved, ...from] = state;
  return moved === undefined ? null : `${written(moved, step)} = f(${written(from.join(", "), step)})`;
}

/** null: nothing is claimed. */
export function outputEquation(flow: Flow, step: number, result = "p"): string | null {
  if (!flow.output.length) return null;
  const from = written(flow.output.join(", "), step);
  return `${result}_{${step}} = ${points(flow) ? from : `g(${from})`}`;
}
