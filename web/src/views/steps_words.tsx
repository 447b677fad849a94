// The words of Steps: what each column is, its equation with the values of the row in focus, and the caption.
import { useId, useState } from "preact/hooks";
import { contextEquation, Equation, outputEquation, scoreEquation, stateEquation, weightEquation } from "../equations";
import { equals, number, short } from "../labels";
import type { Decode } from "./steps_loading";
import type { Moment } from "./steps_moment";

export type Column = "label" | "h" | "e" | "a" | "r" | "c" | "b" | "s" | "p";

interface Meaning {
  word: string;
  letter: string;
  sentence: string;
}

const MEANINGS: Record<Exclude<Column, "r">, Meaning> = {
  label: {
    word: "read",
    letter: "",
    sentence: "What the model reads, one row a position. Each row keeps its place through all columns.",
  },
  h: {
    word: "states",
    letter: "h",
    sentence: "What the encoder made of each position: a list of numbers, blue above zero and brown below.",
  },
  e: {
    word: "scores",
    letter: "e",
    sentence: "How well each position fits what the model looks for. Any number; higher means: look here.",
  },
  a: {
    word: "weights",
    letter: "α",
    sentence:
      "The scores turned into shares that add up to 1: how much each position is looked at. The usual way is softmax.",
  },
  c: {
    word: "context",
    letter: "c",
    sentence: "All states added up, each as much as its weight says: what the model takes from the input at this step.",
  },
  b: {
    word: "last",
    letter: "h",
    sentence: "The encoder's state after the last position. This model looks at nothing else of the input.",
  },
  s: { word: "state", letter: "s", sentence: "What the decoder remembers of what it has written so far." },
  p: { word: "output", letter: "p", sentence: "How likely each output is at this step. The likeliest are shown." },
};

/** The name of a column; what it means is a hover, a focus or a tap away. */
export function Term({ column, word }: { column: Exclude<Column, "r">; word?: string }) {
  const [open, toggle] = useState(false);
  const meaning = MEANINGS[column];
  const id = useId(); // a column may be named twice: over it, and beside it where columns are stacked
  return (
    <span class="term">
      <button
        aria-describedby={id}
        onClick={() => toggle(!open)}
        onBlur={() => toggle(false)}
        onKeyDown={(event) => event.key === "Escape" && toggle(false)}
      >
        {word ?? meaning.word} {meaning.letter && <i>{meaning.letter}</i>}
      </button>
      <span role="tooltip" id={id} class={open ? "means open" : "means"} data-export="no">
        {meaning.sentence}
      </span>
    </span>
  );
}

/** The names over the columns; what is read has its own. */
export function ColumnHeads({ columns, read }: { columns: Column[]; read: string | undefined }) {
  return (
    <>
      {columns.map((column) =>
        column === "r" ? null : (
          <h2 key={column} class={`steps-head at-${column}`}>
            <Term column={column} word={column === "label" ? read : undefined} />
          </h2>
        ),
      )}
    </>
  );
}

/** Under each column its equation; readers count from 1. */
export function Equations({ decode, moment }: { decode: Decode; moment: Moment }) {
  const { look, trace } = decode;
  const { key, count, likely, written, weighed } = moment;
  const about = trace.about;
  const state = moment.state && stateEquation(about, count);
  const likeliest = likely.find((each) => each.label === written) ?? likely[0];
  // Without a look there is no context: how else the states of a text were pooled is not in the page.
  const output = look || decode.action === "write" ? outputEquation(about, count) : null;
  const chance = number(likeliest?.probability);
  return (
    <>
      {look && key >= 0 && moment.scores && (
        <p class="eq eq-e">
          <Equation text={scoreEquation(about, look.site, count, key + 1)} value={number(moment.scores[key]!)} />
        </p>
      )}
      {look && key >= 0 && (
        <p class={`eq eq-a${weighed.by === "hand" ? " changed" : ""}`}>
          <Equation text={weightEquation(count, key + 1, weighed)} value={number(moment.row[key]!, moment.exact)} />
          {weighed.by === "hand" && " set by you"}
        </p>
      )}
      {look && !decode.points && (
        <p class="eq eq-c">
          <Equation text={contextEquation(count, moment.summed, decode.context ? decode.heads : 1)} />
          {state && (
            <>
              <br />
              <Equation text={state} />
            </>
          )}
        </p>
      )}
      {likeliest && (
        <p class="eq eq-p">
          {output && (
            <>
              <Equation text={output} />
              <br />
            </>
          )}
          <span class="equation">
            <i>p</i>
            <sub>{count}</sub>(<bdi dir="auto">{short(likeliest.label, 16)}</bdi>){equals(chance)}
            <b>{chance}</b>
          </span>
        </p>
      )}
    </>
  );
}

export function Caption({ decode, moment }: { decode: Decode; moment: Moment }) {
  const { look, scores, context, points } = decode;
  if (!look && decode.action !== "write") return <>The states, one a position, from which the output comes.</>;
  if (!look) return <>Each step writes from the decoder's own state, which began as what the encoder was left with.</>;
  const opening = moment.writes ? "One step at a time: scores become weights" : "Scores become weights";
  const rest = points
    ? "and the weights are the output: it writes what it points at."
    : "weights mix the states into one context, and from it comes the output.";
  const said = [`${opening}, ${rest}`];
  if (look?.averaged) said.push(`Weights are the mean of ${look.heads.length} heads: choose one to see its scores.`);
  else if (look && !scores) said.push("The scores were not kept, only the weights.");
  if (!context && !points) said.push("The context was not kept.");
  if (moment.weighed.by === "other") said.push("These weights are not a plain softmax of the scores.");
  if (look?.weights.partial) said.push("Only the largest weights of each step were kept.");
  if (!moment.exact) said.push("Numbers are rounded to keep the page small (≈).");
  return <>{said.join(" ")}</>;
}
