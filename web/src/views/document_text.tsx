// Text as it was written, each word as dark as it was looked at.
import { useMemo } from "preact/hooks";
import type { Colours } from "../colours";
import { isSpecial, type Line, short } from "../labels";
import { useColours } from "../theme";
import type { PageAxis } from "../types";

const LONGEST_GAP = 200;

/** The text of positions, and what stands between two of them, as the axis knows it. */
export interface Wording {
  text(from: number, to: number): string;
  between(last: number, next: number): string;
}

/** Where each label stands in the text, one after the other with only spaces between; null where they do not. */
function found(axis: PageAxis, letters: string[]): [number, number][] | null {
  const spans: [number, number][] = [];
  let place = 0;
  for (let i = 0; i < axis.labels.length; i++) {
    const label = isSpecial(axis, i) ? [] : [...axis.labels[i]!];
    while (label.length && place < letters.length && letters[place] !== label[0] && /\s/.test(letters[place]!)) place++;
    if (label.some((letter, j) => letters[place + j] !== letter)) return null;
    spans.push([place, place + label.length]);
    place += label.length;
  }
  return spans;
}

export function wordingOf(axis: PageAxis): Wording {
  // Python counts code points where JavaScript counts halves of pairs.
  const letters = [...(axis.text ?? "")];
  const spans = axis.spans?.length === axis.labels.length ? axis.spans : letters.length ? found(axis, letters) : null;
  const slice = (from: number, to: number) => letters.slice(from, to).join("");
  const label = (position: number) => axis.labels[position] ?? "";
  return {
    text(from, to) {
      const written = spans ? slice(spans[from]![0], spans[to - 1]![1]) : "";
      if (written.trim()) return written.trim();
      return from + 1 === to ? label(from) : axis.labels.slice(from, to).join("");
    },
    between(last, next) {
      if (last < 0) return "";
      if (isSpecial(axis, last) || isSpecial(axis, next)) return " ";
      if (spans) return slice(spans[last]![1], spans[next]![0]).slice(0, LONGEST_GAP);
      return axis.words?.length && axis.words[last] === axis.words[next] ? "" : " ";
    },
  };
}

interface TextProps {
  axis: PageAxis;
  wording: Wording;
  line: Line;
  /** groups of the line that are shown */
  from: number;
  to: number;
  /** of each group of the line between 0 and 1; not a number is hatched */
  strengths: ArrayLike<number>;
  /** the group under the pointer or locked */
  active: number;
  locked: number;
}

export function ShadedText({ axis, wording, line, from, to, strengths, active, locked }: TextProps) {
  const here = (group: number) => (group >= from && group < to ? group : -1);
  const [now, held] = [here(active), here(locked)];
  const colours = useColours();
  // The same elements again, where nothing in these words has changed: a long document has thousands.
  return useMemo(
    () => (
      <>
        {Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i).map((group) => (
          <Word
            key={group}
            axis={axis}
            wording={wording}
            line={line}
            group={group}
            first={group === from}
            strength={strengths[group]!}
            look={group === held ? "locked" : group === now ? "active" : ""}
            colours={colours}
          />
        ))}
      </>
    ),
    [axis, line, from, to, strengths, now, held, colours],
  );
}

interface WordProps {
  axis: PageAxis;
  wording: Wording;
  line: Line;
  group: number;
  first: boolean;
  strength: number;
  look: string;
  colours: Colours;
}

function Word({ axis, wording, line, group, first, strength, look, colours }: WordProps) {
  const [from, to] = [line.from[group]!, line.to[group]!];
  const broken = !Number.isFinite(strength);
  const special = isSpecial(axis, from);
  const style = broken
    ? {}
    : {
        background: strength > 0.004 ? colours.shade(strength) : "transparent",
        color: special && strength < 0.2 ? colours.quiet : colours.inkOn(strength),
      };
  return (
    <>
      {first ? "" : wording.between(line.to[group - 1]! - 1, from)}
      <span class={`word ${look} ${broken ? "broken" : ""}`} data-at={group} style={style}>
        {short(wording.text(from, to))}
      </span>
    </>
  );
}

/** The group of the word that an event happened on; −1 on none. */
export function wordOf(event: Event): number {
  const word = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-at]") : null;
  return word ? Number(word.dataset.at) : -1;
}
