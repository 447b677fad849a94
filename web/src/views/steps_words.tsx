// The words of Steps: what each column is, its equation with the values of the row in focus, and the caption.
import { useId, useState } from "preact/hooks";
import { contextEquation, Equation, Maths, outputEquation, scoreEquation, weightEquation } from "../equations";
import { type Flow, letterOf, listed } from "../flow";
import { equals, number, short } from "../labels";
import { betweenOf, type Decode } from "./steps_loading";
import { type Moment, numberOf } from "./steps_moment";

export type Column = "q" | "label" | "h" | "e" | "a" | "r" | "c" | "b" | "s" | "p";

interface Meaning {
  word: string;
  letter: string;
  sentence: string;
}

const MEANINGS: Record<Exclude<Column, "r">, Meaning> = {
  q: {
    word: "asks with",
    letter: "",
    sentence: "What the step has before it reads, and what each goes into: scores e, output p, the new state.",
  },
  label: {
    word: "read",
    letter: "",
    sentence: "What the model reads, one row a position. Each row keeps its place through all columns.",
  },
  h: {
    word: "states",
    letter: "h",
    sentence: "The state of each position that is read: a list of numbers, blue above zero and brown below.",
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
      "The scores turned into shares: how much each position is looked at. The usual way is softmax: they add up to 1.",
  },
  c: {
    word: "context",
    letter: "c",
    sentence: "What is read, added up, each position as much as its weight says.",
  },
  b: {
    word: "last",
    letter: "h",
    sentence: "The encoder's state after the last position.",
  },
  s: { word: "state", letter: "s", sentence: "The vector of this step, from which the output is read." },
  p: { word: "output", letter: "p", sentence: "How likely each output is at this step. The likeliest are shown." },
};

/** The name of a column; what it means is a hover, a focus or a tap away. */
export function Term({ column, word, letter }: { column: Exclude<Column, "r">; word?: string; letter?: string }) {
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
        {word ?? meaning.word} {meaning.letter && <i>{letter ?? meaning.letter}</i>}
      </button>
      <span role="tooltip" id={id} class={open ? "means open" : "means"} data-export="no">
        {meaning.sentence}
      </span>
    </span>
  );
}

/** The names over the columns; what is read has its own. */
export function ColumnHeads({
  columns,
  axis,
  decode,
}: {
  columns: Column[];
  axis: string | undefined;
  decode: Decode;
}) {
  // The model's own letters, where it declares them.
  const read = decode.readLetter ?? undefined;
  const between = betweenOf(decode)[0];
  const letters: Partial<Record<Column, string>> = { h: read, b: read, s: between && letterOf(between) };
  return (
    <>
      {columns.map((column) =>
        column === "r" ? null : (
          <h2 key={column} class={`steps-head at-${column}`}>
            <Term column={column} word={column === "label" ? axis : undefined} letter={letters[column]} />
          </h2>
        ),
      )}
    </>
  );
}

/** Under each column its equation; readers count from 1. */
export function Equations({ decode, moment }: { decode: Decode; moment: Moment }) {
  const { look, flow } = decode;
  const { key, count, likely, written, weighed } = moment;
  const { scores } = decode.trace.about;
  const place = numberOf(decode, key);
  const likeliest = likely.find((each) => each.label === written) ?? likely[0];
  // Of a candidate the score is computed; how probable it is, depends on the others' too.
  const output = flow && outputEquation(flow, count, decode.action === "score" ? "score" : "p");
  const chance = number(likeliest?.probability);
  return (
    <>
      {look && key >= 0 && moment.scores && (
        <p class="eq eq-e">
          <Equation text={scoreEquation(flow, scores?.[look.site], count, place)} value={number(moment.scores[key]!)} />
        </p>
      )}
      {look && key >= 0 && (
        <p class={`eq eq-a${weighed.by === "hand" ? " changed" : ""}`}>
          <Equation text={weightEquation(count, place, weighed)} value={number(moment.row[key]!, moment.exact)} />
          {weighed.by === "hand" && " set by you"}
        </p>
      )}
      {look && !decode.points && (
        <p class="eq eq-c">
          <Equation
            text={contextEquation(
              count,
              moment.summed ? (decode.readLetter ?? "h") : null,
              decode.context ? decode.heads : 1,
            )}
          />
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

/** What comes of the weights, as the model declares it. */
function Outcome({ flow, moment, of }: { flow: Flow | null; moment: Moment; of: string }) {
  if (!flow) return <>, and weights mix what is read into one context.</>;
  const { count } = moment;
  if (flow.output.length === 1 && flow.output[0] === "α[t]") return <>, and the weights are the output.</>;
  return (
    <>
      , and weights mix what is read into one context <Maths text={`c_{${count}}`} />.
      {flow.into && ` It goes into ${flow.into}.`}
      {flow.output.length > 0 && (
        <>
          {` ${of} is computed from `}
          <Maths text={listed(flow.output, count)} />.
        </>
      )}
    </>
  );
}

export function Caption({ decode, moment }: { decode: Decode; moment: Moment }) {
  const { look, scores, context, points, flow } = decode;
  if (!look && decode.action !== "write") return <>The states, one a position, from which the output comes.</>;
  if (!look)
    return flow ? (
      <>
        The output is computed from <Maths text={listed(flow.output, moment.count)} />.
      </>
    ) : null;
  const said = [""];
  if (look.averaged) said.push(`Weights are the mean of ${look.averaged} heads: choose one to see its scores.`);
  else if (!scores) said.push("The scores were not kept, only the weights.");
  if (!context && !points) said.push("The context was not kept.");
  if (moment.weighed.by === "other") said.push("These weights are not a plain softmax of the scores.");
  if (look.weights.partial) said.push("Only the largest weights of each step were kept.");
  if (!moment.exact) said.push("Numbers are rounded to keep the page small (≈).");
  return (
    <>
      {moment.writes ? "One step at a time: scores become weights" : "Scores become weights"}
      <Outcome flow={flow} moment={moment} of={decode.action === "score" ? "The candidate’s score" : "The output"} />
      {said.join(" ")}
    </>
  );
}
