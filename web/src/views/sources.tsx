// What the views of documents, pictures, sounds, graphs and records share: the sites that fit, axes that lie in others,
// the row that is looked from, and a classifier's answer.
import { useEffect, useMemo } from "preact/hooks";
import { CHOICES, actionOf, purposeOf } from "../output_kind";
import { number, short } from "../labels";
import { type Look, type Loaded, useLook } from "../look";
import { Picker, Places } from "../parts";
import { siteOf } from "../state";
import type { About, LoadedTrace, Matrix, PageAxis, PageMap, PageTrace, Part, ViewProps } from "../types";
import "./sources.css";

export type Fits = (map: PageMap, trace: PageTrace) => boolean;

export function serving(fits: Fits): (trace: PageTrace) => boolean {
  return (trace) => trace.maps.some((map) => map.keys > 0 && map.queries > 0 && fits(map, trace));
}

export function keyKind(trace: PageTrace, map: PageMap): string {
  return trace.axes[map.key]?.kind ?? "positions";
}

interface Fitting extends Loaded<Look | null> {
  sites: string[];
}

/** The look at the site in focus where it fits this view, else at the last that does, which then comes into focus. */
export function useFitting({ trace, state, set }: ViewProps, fits: Fits): Fitting {
  const sites = useMemo(
    () => [...new Set(trace.maps.filter((map) => fits(map, trace)).map((map) => map.site))],
    [trace],
  );
  const now = siteOf(trace, state);
  const site = now !== null && sites.includes(now) ? now : (sites.at(-1) ?? null);
  useEffect(() => {
    // Steps and keys are positions on the axes of the site in focus.
    if (site !== now) set({ site, head: null, key: null, hover: null });
  }, [site, now]);
  const found = useLook(trace, { ...state, site });
  return { ...found, value: found.value?.site === site ? found.value : null, sites };
}

/** Pickers for the site, the head and the row that looks, each only where there is a choice. */
export function Choices({
  look,
  sites,
  state,
  set,
  steps = true,
}: Pick<ViewProps, "state" | "set"> & { look: Look; sites: string[]; steps?: boolean }) {
  const { heads, map, query } = look;
  return (
    <>
      <Places sites={sites} site={look.site} heads={heads} head={state.head} set={set} />
      {steps && (
        <RowPicker
          axis={query}
          first={map.step}
          rows={look.weights.rows}
          value={state.step}
          pick={(step) => set({ step })}
        />
      )}
    </>
  );
}

const MOST_ROWS = 500; // entries of a menu

export function RowPicker({
  axis,
  first,
  rows,
  value,
  pick,
}: {
  axis: PageAxis;
  first: number;
  rows: number;
  value: number;
  pick(step: number): void;
}) {
  if (rows < 2) return null;
  const choices = Array.from({ length: Math.min(rows, MOST_ROWS) }, (_, row) => ({
    value: String(first + row),
    label: short(axis.labels[first + row] ?? String(first + row), 32),
  }));
  return <Picker label="for" value={String(value)} choices={choices} pick={(chosen) => pick(Number(chosen))} />;
}

/** Looks at an axis and at what lies in it: sentences and their words, visits and their codes. */
export interface Nested {
  outer: Look | null;
  inner: Look | null;
  /** the weight of a position of the inner axis within its own part of the outer one */
  innerWeight(position: number): number;
  outerWeight(position: number): number;
}

/** The map that looks at `axis`, or at what lies in it; of several the last that looks from another axis. */
export function mapAt(trace: LoadedTrace, fits: (map: PageMap) => boolean): PageMap | null {
  const found = trace.maps.filter(fits);
  return found.filter((map) => map.query !== map.key).at(-1) ?? found.at(-1) ?? null;
}

export function nested(outer: Look | null, inner: Look | null, step: number): Nested {
  const row = (look: Look, at: number) => Math.max(0, Math.min(look.weights.rows - 1, at - look.map.step));
  // Each part may look at what lies in it, or all of it is looked at from the same place.
  const own = inner !== null && inner.map.query === inner.key.parent;
  return {
    outer,
    inner,
    innerWeight(position) {
      if (!inner) return NaN;
      const from = own ? (inner.key.within[position] ?? -1) - inner.map.step : row(inner, step);
      return from < 0 ? NaN : inner.weights.at(from, position);
    },
    outerWeight: (position) => (outer ? outer.weights.at(row(outer, step), position) : NaN),
  };
}

export function largestOf(values: ArrayLike<number>): { at: number; value: number } {
  let at = -1;
  let value = 0;
  for (let i = 0; i < values.length; i++)
    if (values[i]! > value && values[i] !== Infinity) [at, value] = [i, values[i]!];
  return { at, value };
}

/** How many of the largest entries of a row hold half of its mass. */
export function halfOf(matrix: Matrix, row: number): number {
  const values: number[] = [];
  matrix.entries(row, (_, value) => value > 0 && Number.isFinite(value) && values.push(value));
  values.sort((one, other) => other - one);
  const half = (values.reduce((sum, value) => sum + value, 0) + (matrix.residual?.[row] ?? 0)) / 2;
  let sum = 0;
  const count = values.findIndex((value) => (sum += value) >= half) + 1;
  return count || values.length;
}

function shares(about: About): [string, number][] {
  const found = about.labels ?? about.probabilities;
  if (!found || typeof found !== "object" || Array.isArray(found)) return [];
  return Object.entries(found as Record<string, number | null>)
    .map(([name, share]): [string, number] => [name, share ?? NaN])
    .sort(([, one], [, other]) => (Number.isNaN(one) ? 1 : Number.isNaN(other) ? -1 : other - one));
}

export function hasAnswer(about: About): boolean {
  return shares(about).length > 0;
}

const MOST_LABELS = 10;

/** What a classifier made of it: each label with its probability. */
export function Answer({ about }: { about: About }) {
  const all = shares(about);
  if (!all.length) return null;
  const left = all.slice(MOST_LABELS);
  const rest = left.reduce((sum, [, share]) => sum + (Number.isFinite(share) ? share : 0), 0);
  return (
    <dl class="answer" aria-label={`probability of each ${CHOICES[actionOf(about)]}`}>
      {all.slice(0, MOST_LABELS).map(([name, share]) => (
        <div key={name}>
          <dt>
            <bdi dir="auto">{short(name, 40)}</bdi>
          </dt>
          <dd>
            <Bar share={share} />
            {number(share)}
          </dd>
        </div>
      ))}
      {left.length > 0 && (
        <div>
          <dt>{`${left.length} others`}</dt>
          <dd>
            <Bar share={rest} />
            {number(rest)}
          </dd>
        </div>
      )}
    </dl>
  );
}

/** A share of one, as a length. */
export function Bar({ share }: { share: number }) {
  const width = Number.isFinite(share) ? Math.max(0, Math.min(1, share)) : 0;
  return (
    <span class="length" aria-hidden="true">
      <span style={{ width: `${100 * width}%` }} />
    </span>
  );
}

/** "To decide on *positive* it", "To write *red* it": what the looking was for, as far as that is known. */
export function opening(look: Look, about: About, step: number): Part[] {
  const label = look.query.labels[step];
  if (label === undefined) return ["It "];
  const token: Part = { token: short(label) };
  if (look.query.kind === "tokens") {
    // What one place pools of a text is decided on, whoever pools it.
    const decides = actionOf(about) === "decide" || (actionOf(about) === "write" && look.weights.rows === 1);
    const purpose = decides ? "to decide on" : purposeOf(look.map, look.query, about, step);
    return purpose ? [`T${purpose.slice(1)} `, token, " it "] : ["For ", token, " it "];
  }
  if (look.query.kind === "positions") return ["At ", token, " it "];
  return look.weights.rows > 1 ? ["For ", token, " it "] : ["It "];
}
