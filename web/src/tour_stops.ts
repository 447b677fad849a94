// The stops of the tour: what is said at each, with the words and numbers of the trace that is shown.
import { CHOICES, outputKind } from "./output_kind";
import { listed } from "./flow";
import { isSpecial, number, short, wordAt } from "./labels";
import { isNarrow } from "./tour_place";
import type { LoadedTrace, Part } from "./types";
import type { Decode } from "./views/steps_loading";
import type { Moment } from "./views/steps_moment";
import { heaviest } from "./views/steps_numbers";
import { pieces } from "./what_if";

export interface Stop {
  title: string;
  said: Part[];
  /** what it points at: everything that this selector finds */
  at: string;
}

const TURNED = 0.5; // of a full weight: what it is worth that something is turned into something else, not copied

/** The step that shows most: it looks at one word, and writes something that is not in it. */
export function clearest({ look }: Decode, step: number): number {
  if (!look) return step;
  let best = { step: look.map.step, worth: -1 };
  for (let row = 0; row < look.weights.rows; row++) {
    const weights = look.weights.row(row);
    const key = heaviest(weights);
    const written = look.query.labels[look.map.step + row] ?? "";
    if (key < 0 || isSpecial(look.key, key) || isSpecial(look.query, look.map.step + row)) continue;
    const { text, from, to } = wordAt(look.key, key);
    const share = weights.slice(from, to).reduce((sum, weight) => sum + weight, 0);
    const worth = share + (text.includes(written.trim()) ? 0 : TURNED);
    if (worth > best.worth) best = { step: look.map.step + row, worth };
  }
  return best.step;
}

export function stopsOf(decode: Decode, moment: Moment): Stop[] {
  const { look, trace } = decode;
  const token = (text: string): Part => ({ token: short(text, 40) });
  const input = trace.about.input;
  const read: Part[] =
    typeof input === "string" && input ? ["The model has read ", token(input)] : ["The model has read its input"];
  const before =
    moment.written === null
      ? ""
      : withoutPrompt(trace, pieces(trace.axis(look?.map.query ?? trace.outputs?.axis ?? ""), 0, moment.step).join(""));
  const writes: Part[] = before.trim() ? [" and written ", token(before), " so far. "] : [". It writes step by step. "];
  const { points } = decode;
  const sofar: Part[] = [...read, ...(moment.writes ? writes : [". "])];
  return [
    ...(look ? lookStops(decode, moment, sofar) : plainStops(decode, sofar)),
    outputStop(decode, moment),
    // Who decides once has nothing to do again.
    ...(moment.writes ? [againStop(trace, !!look, points)] : []),
  ];
}

/** What a language model wrote itself: its text begins with what it was given. */
function withoutPrompt({ about }: LoadedTrace, text: string): string {
  const given = outputKind(about) === "continuation" ? String(about.input ?? "") : "";
  return text.startsWith(given) ? text.slice(given.length).trim() : "";
}

function lookStops({ look, read, points }: Decode, moment: Moment, sofar: Part[]): Stop[] {
  const { scores, row, key, exact } = moment;
  const axis = look!.key;
  const here: Part = { token: short(axis.labels[key] ?? "", 24) };
  const word = key < 0 ? { text: "", from: 0, to: 0 } : wordAt(axis, key);
  const inWord: Part[] = word.to - word.from > 1 ? [" in ", { token: short(word.text, 24) }] : [];
  const top: Part[] = !scores
    ? [" (These were not kept here.)"]
    : key >= 0
      ? [` ${isHighest(scores, key) ? "The highest is" : "It is"} ${number(scores[key])}, for `, here, ...inWord, "."]
      : [];
  const share = Array.from(row)
    .slice(word.from, word.to)
    .reduce((sum, weight) => sum + weight, 0);
  const states = read
    ? `Each position has a state h, a list of ${read.values.columns} numbers. `
    : "Each position has a state: a list of numbers. ";
  return [
    {
      title: "Scores",
      at: scores ? ".steps .at-e" : ".steps .at-label",
      said: [
        ...sofar,
        moment.writes
          ? "To find what comes next it gives each position it read a score e: how well does this fit now?"
          : "To decide, it gives each position it read a score e: how much does this say?",
        ...top,
      ],
    },
    weightStop(moment, key < 0 ? [] : [{ token: short(word.text, 24) }, ` gets ${number(share, exact)} of it.`]),
    // A pointer network sums nothing: where it points is what it writes.
    ...(points ? [] : [contextStop(states, moment.writes)]),
  ];
}

function isHighest(scores: ArrayLike<number>, key: number): boolean {
  return Array.from(scores).every((score) => !(score > scores[key]!));
}

function contextStop(states: string, steps: boolean): Stop {
  return {
    title: "Context",
    at: ".steps .at-r, .steps .at-c",
    said: [
      states,
      "The model adds up what is read, each position as much as its weight says",
      isNarrow() ? ". " : "; the ribbons show how much comes from where. ",
      `The sum is the context c: what it takes from there${steps ? " at this step" : ""}.`,
    ],
  };
}

/** How scores became weights is only called softmax where the page has checked it. */
function weightStop({ weighed }: Moment, share: Part[]): Stop {
  const soft = weighed.by === "softmax";
  const how = soft
    ? "Softmax turns the scores into weights α, none below zero and together 1: how the looking is shared out. "
    : "The scores are turned into weights α, none below zero: how the looking is shared out. ";
  const title = soft ? "Softmax: scores become weights" : "Scores become weights";
  return { title, at: ".steps .at-a", said: ["A score can be any number. ", how, ...share] };
}

function plainStops({ read, action, flow }: Decode, sofar: Part[]): Stop[] {
  const size = read ? `${read.values.columns} numbers` : "a list of numbers";
  if (action !== "write")
    return [
      {
        title: "Reading",
        at: ".steps .at-h",
        said: [...sofar, `Of each position it made a state: ${size}.`, " It has no attention to say which counted."],
      },
    ];
  return [
    {
      title: "Reading",
      at: ".steps .at-h",
      said: [...sofar, `After each position its state is ${size}: what it made of the input so far.`],
    },
    {
      title: "The bottleneck",
      at: ".steps .at-r, .steps .at-b",
      said: [
        flow?.passed
          ? `Everything the model will ever know about the input has to fit into ${flow.passed} numbers: `
          : "",
        "it cannot look back.",
      ],
    },
    ...(flow?.state.length
      ? [{ title: "State", at: ".steps .at-s", said: ["Its own state changes with everything it writes."] }]
      : []),
  ];
}

function outputStop({ action, points, flow, look, reads }: Decode, moment: Moment): Stop {
  const { likely, written, writes, given, count } = moment;
  if (reads) {
    const into = flow?.into ? `: the context goes into ${flow.into}` : "";
    return { title: "Output", at: ".steps .at-p", said: [`No output is read off here${into}.`] };
  }
  const found = likely.find((each) => each.label === written) ?? likely[0];
  const told: Part[] = found
    ? [
        { token: short(found.label, 24) },
        ` has probability ${number(found.probability)}.`,
        writes && found.label !== written
          ? ""
          : given
            ? " It was given, not written."
            : writes
              ? " It was written."
              : found === likely[0]
                ? " That is its answer."
                : "",
      ]
    : ["How likely they were was not kept here."];
  const from = flow?.output.length
    ? `From ${listed(flow.output, count).replace(/_\{([^}]*)\}/g, "$1")} the model works out`
    : look
      ? "Then the model works out"
      : "From its states the model works out";
  return {
    title: "Output",
    at: ".steps .at-p",
    said: [points ? "Here the weights themselves say" : from, ` how likely each ${CHOICES[action]} is. `, ...told],
  };
}

function againStop(trace: LoadedTrace, looks: boolean, points: boolean): Stop {
  const axis = trace.axis(trace.outputs?.axis ?? trace.maps.at(-1)?.query ?? "");
  // A prompt was read in one go.
  const count = axis.labels.length - (trace.about.given ?? 0);
  const last = axis.labels.at(-1) ?? "";
  const ended: Part[] =
    trace.about.stopped === "eos"
      ? [" it wrote ", { token: short(last, 24) }, ", which means stop."]
      : trace.about.stopped === "length"
        ? [" it was cut off: it had no room for more."]
        : [" it came to its end."];
  return {
    title: "And again, until it stops",
    at: ".scrubber",
    said: [
      looks
        ? `Then the same for the next piece: new scores, new weights${points ? "" : ", a new context"}. `
        : "Then the same for the next piece, from the changed state. ",
      `After ${count} ${count === 1 ? "step" : "steps"}`,
      ...ended,
      " Press play to watch, or choose any step.",
    ],
  };
}
