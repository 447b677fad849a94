// Document: the text itself, each word as dark as it was looked at, a bar before each sentence. With attention over words
// and over sentences a word is shaded by √p(sentence) · p(word), as Yang et al. (2016) draw it.
import { useMemo } from "preact/hooks";
import { Figure, type Table } from "../figure";
import { evenly } from "../grouping";
import { type Line, lineOf, number, short } from "../labels";
import { type Look, lookAt, useLoaded } from "../look";
import { Showing, Waiting } from "../parts";
import { useSay } from "../readout";
import type { LoadedTrace, PageMap, PageTrace, Part, View, ViewProps } from "../types";
import { ColourBar, ScalePicker } from "../colour_bar";
import { dense } from "../matrices";
import { type Scale, type ScaleName, scaleOf } from "../scale";
import { ShadedText, type Wording, wordingOf, wordOf } from "./document_text";
import {
  Answer,
  Bar,
  Choices,
  halfOf,
  hasAnswer,
  largestOf,
  mapAt,
  type Nested,
  nested,
  opening,
  RowPicker,
  serving,
  useFitting,
} from "./sources";
import "./document.css";

/** Words in sentences, sentences, or words that one place pools: not the source of a text that is written word by word. */
function fits(map: PageMap, trace: PageTrace): boolean {
  const [key, query] = [trace.axes[map.key], trace.axes[map.query]];
  if (!key || map.query === map.key) return false;
  if (key.kind === "sentences") return !trace.maps.some((other) => trace.axes[other.key]?.parent === map.key);
  if (key.kind !== "tokens") return false;
  const parent = key.parent === null ? undefined : trace.axes[key.parent]?.kind;
  if (parent !== undefined) return parent === "sentences";
  const decides = !!(trace.about.labels ?? trace.about.probabilities);
  return map.queries === 1 || decides || query?.kind !== "tokens";
}

export const documents: View = {
  id: "document",
  // Not of a text that is written step by step; but where there are sentences, the text itself says most.
  front: (trace) => !trace.outputs || Object.values(trace.axes).some((axis) => axis.kind === "sentences"),
  title: "Document",
  about: "The text itself: the stronger a word’s colour, the more it was looked at.",
  picks: true,
  serves: serving(fits),
  Component: Document,
};

const MOST_WORDS = 4000; // more than anyone reads on one page; the table has them all

function Document(props: ViewProps) {
  const { trace, state } = props;
  const { value: look, error, sites } = useFitting(props, fits);
  const parent = look?.key.parent ?? null;
  const { value: outer, error: other } = useLoaded(async () => outerLook(trace, parent), [parent], trace);
  if (!look || (parent !== null && !outer && mapAt(trace, (map) => map.key === parent)))
    return <Waiting error={error ?? other} />;
  return <DocumentOf key={`${state.trace} ${look.site}`} {...props} look={look} outer={outer} sites={sites} />;
}

async function outerLook(trace: LoadedTrace, parent: string | null): Promise<Look | null> {
  const map = parent === null ? null : mapAt(trace, (each) => each.key === parent);
  return map && lookAt(trace, map.site, null);
}

interface Shading {
  line: Line;
  wording: Wording;
  nest: Nested;
  /** of each group of the line: its weight, what it is shaded by, and that as a share of the largest */
  weights: Float64Array;
  values: Float64Array;
  strengths: Float64Array;
  scale: Scale;
  largest: { at: number; value: number };
  /** the sentence of each group; −1: none */
  sentence: Int32Array;
}

function shadingOf(look: Look, outer: Look | null, state: ViewProps["state"], row: number, name: ScaleName): Shading {
  const line = lineOf(look.key, state);
  const nest = nested(outer, look, row);
  const weights = Float64Array.from(line.from, (from, g) => {
    let sum = 0;
    for (let position = from; position < line.to[g]!; position++) sum += nest.innerWeight(position);
    return sum;
  });
  const lies = look.key.parent !== null;
  const sentence = Int32Array.from(line.from, (from) => (lies ? (look.key.within[from] ?? -1) : -1));
  const values = weights.map((weight, g) => (outer ? Math.sqrt(nest.outerWeight(sentence[g]!)) * weight : weight));
  const largest = largestOf(values);
  // Looked at evenly, the words of S sentences have √(1/S) · S/N on the mean: as much as one of N/√S words.
  const alike = values.length / (outer ? Math.sqrt(Math.max(1, outer.weights.columns)) : 1);
  const exact = look.weights.exact && (outer?.weights.exact ?? true);
  const all = { ...dense(Float32Array.from(values), 1, values.length, exact), columns: alike, largest: largest.value };
  const scale = scaleOf(name, all);
  return {
    line,
    wording: wordingOf(look.key),
    nest,
    weights,
    values,
    strengths: values.map((value) => scale.strength(0, value)),
    scale,
    largest,
    sentence,
  };
}

type DocumentProps = ViewProps & { look: Look; outer: Look | null; sites: string[] };

function DocumentOf({ trace, state, set, look, outer, sites }: DocumentProps) {
  const own = look.map.query === look.key.parent;
  const row = own ? Number(state.more["document.for"] ?? outer?.map.step ?? 0) : state.step;
  const { scale: chosen } = state.more;
  // A long text is read for its strongest words, so it begins with the plain scale.
  const name = chosen === "even" || chosen === "shared" ? chosen : "map";
  const shading = useMemo(
    () => shadingOf(look, outer, state, row, name),
    [look, outer, row, state.special, state.words, name],
  );
  const { line } = shading;
  const active = line.group[state.hover?.key ?? -1] ?? -1;
  const locked = line.group[state.key ?? -1] ?? -1;
  useSay(said(shading, look, trace, row, active >= 0 ? active : locked));
  const to = (group: number) => ({
    step: own ? Math.max(0, shading.sentence[group]!) : state.step,
    key: line.from[group]!,
  });
  const hand = handOf(shading, active, locked, to, set);
  return (
    <Figure
      name="document"
      table={tableOf(shading, look)}
      controls={
        <>
          <Choices look={look} sites={sites} state={state} set={set} steps={!own} />
          {own && outer && <For look={outer} row={row} set={set} />}
          <ScalePicker name={name} set={set} rows={false} />
          <Showing axes={[look.key]} state={state} set={set} />
        </>
      }
      caption={<Caption look={look} outer={outer} row={row} scale={shading.scale} />}
    >
      <div class={hasAnswer(trace.about) ? "beside" : "beside alone"}>
        <div class="document" role="group" tabIndex={0} aria-label={KEYS} {...hand}>
          <Sentences shading={shading} look={look} active={active} locked={locked} />
        </div>
        <Answer about={trace.about} />
      </div>
      <ColourBar scale={shading.scale} title={outer ? "√sentence · word" : "weight"} />
    </Figure>
  );
}

const KEYS = "the text; arrow keys move from word to word";

/** What pointer and keys do to the words; `to` says where in the trace a word stands. */
function handOf(
  shading: Shading,
  active: number,
  locked: number,
  to: (group: number) => { step: number; key: number },
  set: ViewProps["set"],
) {
  return {
    onPointerOver(event: Event) {
      const group = wordOf(event);
      if (group !== active) set({ hover: group < 0 ? null : to(group) });
    },
    onPointerLeave: () => set({ hover: null }),
    onClick(event: Event) {
      const group = wordOf(event);
      if (group >= 0) set(group === locked ? { key: null } : to(group));
    },
    onKeyDown(event: KeyboardEvent) {
      const next = moved(event, shading, locked);
      if (next === null) return;
      event.preventDefault();
      event.stopPropagation();
      set({ hover: null, ...(next < 0 ? { key: null } : to(next)) });
    },
  };
}

/** From where the sentences are looked at, where each sentence itself looks at its words. */
function For({ look, row, set }: { look: Look; row: number; set: ViewProps["set"] }) {
  const { map, query, weights } = look;
  const pick = (step: number) => set({ more: { "document.for": step } });
  return <RowPicker axis={query} first={map.step} rows={weights.rows} value={row} pick={pick} />;
}

/** Groups that stand together: those of one sentence; sentences that are not looked into stand alone. */
function blocksOf({ line, sentence }: Shading, look: Look): { from: number; to: number; sentence: number }[] {
  const blocks: { from: number; to: number; sentence: number }[] = [];
  const whole = look.key.kind === "sentences";
  for (let g = 0; g < Math.min(line.labels.length, MOST_WORDS); g++) {
    const last = blocks.at(-1);
    if (last && !whole && sentence[g] === last.sentence) last.to = g + 1;
    else blocks.push({ from: g, to: g + 1, sentence: whole ? g : sentence[g]! });
  }
  return blocks;
}

function Sentences({
  shading,
  look,
  active,
  locked,
}: {
  shading: Shading;
  look: Look;
  active: number;
  locked: number;
}) {
  const { line, nest, strengths, weights, wording } = shading;
  const whole = look.key.kind === "sentences";
  const blocks = useMemo(() => blocksOf(shading, look), [shading]);
  const weigh = (block: { from: number; sentence: number }) =>
    whole ? weights[block.from]! : nest.outerWeight(block.sentence);
  const most = Math.max(...blocks.map(weigh).filter(Number.isFinite), 0) || 1;
  const exact = (whole ? look : nest.outer)?.weights.exact;
  const left = line.labels.length - MOST_WORDS;
  return (
    <>
      {blocks.map((block) => {
        const text = (
          <p class="prose" dir="auto" key={block.from}>
            <ShadedText
              axis={look.key}
              wording={wording}
              line={line}
              from={block.from}
              to={block.to}
              strengths={strengths}
              active={active}
              locked={locked}
            />
          </p>
        );
        if (!whole && !nest.outer) return text;
        return (
          <div class="sentence" key={block.from}>
            <div class="share" title="the weight of this sentence">
              <Bar share={weigh(block) / most} />
              {number(weigh(block), exact)}
            </div>
            {text}
          </div>
        );
      })}
      {left > 0 && <p class="empty">{`… and ${left} more: the table has them all.`}</p>}
      {!line.labels.length && <p class="empty">There is no text here.</p>}
    </>
  );
}

const MOVES: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The word that a key leads to; −1: to none; null: the key is not for us. Up and down go by sentences. */
function moved(event: KeyboardEvent, { line, sentence, largest }: Shading, from: number): number | null {
  if (event.altKey || event.ctrlKey || event.metaKey) return null;
  const count = line.labels.length;
  const move = MOVES[event.key];
  if (event.key === "Escape") return -1;
  if (!count) return null;
  if (event.key === "Home") return 0;
  if (event.key === "End") return count - 1;
  if (event.key === "Enter") return Math.max(0, from < 0 ? largest.at : from);
  if (!move) return null;
  if (from < 0) return Math.max(0, largest.at);
  if (move[0]) return Math.max(0, Math.min(count - 1, from + move[0]));
  let next = from;
  while (next > 0 && next < count - 1 && sentence[next] === sentence[from]) next += move[1];
  return Math.max(0, Math.min(count - 1, next));
}

function said(
  { line, wording, nest, weights, sentence, largest }: Shading,
  look: Look,
  trace: LoadedTrace,
  row: number,
  group: number,
): Part[] {
  const chosen = group >= 0 ? group : largest.at;
  if (chosen < 0) return line.labels.length ? ["It looked at nothing that can be shown."] : [];
  const why = opening(
    nest.outer ?? look,
    trace.about,
    nest.outer || look.map.query !== look.key.parent ? row : look.map.step,
  );
  const alike = group < 0 && !nest.outer ? evenly(weights, look.weights.exact) : 0;
  if (alike) return [...why, `looked at ${alike} words alike (${number(weights[chosen], look.weights.exact)} each).`];
  const did: Part[] = [
    group >= 0 ? "gave " : "looked most at ",
    { token: short(wording.text(line.from[chosen]!, line.to[chosen]!), 60) },
  ];
  const weight = weights[chosen]!;
  if (!Number.isFinite(weight)) return [...why, ...did, " a weight that is not a number."];
  const share = number(weight, look.weights.exact);
  if (!nest.outer) return [...why, ...did, group >= 0 ? ` a weight of ${share}.` : ` (${share}).`];
  const whole = number(nest.outerWeight(sentence[chosen]!), nest.outer.weights.exact);
  return [...why, ...did, group >= 0 ? "" : ":", ` ${share} of its sentence, which got ${whole}.`];
}

function tableOf({ line, nest, weights, values, sentence }: Shading, look: Look): Table {
  const outer = nest.outer;
  const exact = look.weights.exact && (outer?.weights.exact ?? true);
  const columns = outer
    ? ["sentence", "weight in its sentence", "weight of the sentence", "√sentence · word"]
    : ["weight"];
  return {
    corner: look.map.key,
    columns,
    rows: line.labels.length,
    rowLabel: (g) => line.labels[g] ?? "",
    cell(g, column) {
      if (!outer || column === 1) return number(weights[g], look.weights.exact, 3);
      if (column === 0) return String(sentence[g]! + 1);
      return number(column === 2 ? nest.outerWeight(sentence[g]!) : values[g], exact, 3);
    },
  };
}

interface CaptionProps {
  look: Look;
  outer: Look | null;
  row: number;
  scale: Scale;
}

function Caption({ look, outer, row, scale }: CaptionProps) {
  const counted = outer ?? look;
  const at = counted.map.query === counted.key.parent ? -1 : Math.max(0, row - counted.map.step);
  const unit = counted.key.kind === "sentences" ? "sentences" : "positions";
  return (
    <>
      {at >= 0 && `Half of the weight lies on ${halfOf(counted.weights, at)} of ${counted.weights.columns} ${unit}. `}
      {outer
        ? "A word’s colour is as strong as √(weight of its sentence) · its weight in the sentence; the bars are the sentences."
        : `The stronger a word’s colour, the larger its weight. ${scale.said}`}
      {look.averaged > 0 && ` This is the mean of ${look.averaged} heads.`}
      {look.weights.partial && " Only the largest weights were kept; words without any have no colour."}
    </>
  );
}
