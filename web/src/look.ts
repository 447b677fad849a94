// Loading for views: a promise as a value, and the weights of the site and head that the state speaks of.
import { useEffect, useRef, useState } from "preact/hooks";
import { mean } from "./matrices";
import { siteOf } from "./state";
import type { LoadedTrace, Matrix, PageAxis, PageMap, State } from "./types";

export interface Loaded<T> {
  value: T | null;
  /** what went wrong, for the reader */
  error: string | null;
}

/** What `load` promises, once it is there. While a new one is on its way the old stays; a new `owner` clears it. */
export function useLoaded<T>(load: () => Promise<T>, depends: readonly unknown[], owner: unknown = null): Loaded<T> {
  const [found, tell] = useState<Loaded<T> & { owner: unknown }>({ value: null, error: null, owner });
  const turn = useRef(0);
  useEffect(() => {
    const mine = ++turn.current;
    Promise.resolve()
      .then(load)
      .then(
        (value) => mine === turn.current && tell({ value, error: null, owner }),
        (error: unknown) => mine === turn.current && tell({ value: null, error: worded(error), owner }),
      );
    return () => void turn.current++;
  }, [...depends, owner]);
  return found.owner === owner ? found : { value: null, error: null };
}

export function worded(error: unknown): string {
  return error instanceof Error && error.message ? error.message : "Something went wrong, and it did not say what.";
}

/** Everything about the place in focus, loaded together so that its parts always belong together. */
export interface Look {
  site: string;
  /** null: the only head, or the mean of all */
  head: number | null;
  heads: (number | null)[];
  /** the one map, or the first of those averaged */
  map: PageMap;
  query: PageAxis;
  key: PageAxis;
  /** row r is position map.step + r of the query axis */
  weights: Matrix;
  /** of how many heads this is the mean; 0: it is one head's */
  averaged: number;
}

export function headsOf(trace: LoadedTrace, site: string): (number | null)[] {
  return [...new Set(trace.mapsOf(site).map((map) => map.head))];
}

export async function lookAt(trace: LoadedTrace, site: string, head: number | null): Promise<Look | null> {
  const all = trace.mapsOf(site);
  const chosen = head === null ? all : all.filter((map) => map.head === head);
  const map = chosen[0];
  if (!map) return null;
  // Heads of one site share its axes; a map of another shape cannot be averaged with them.
  const alike = chosen.filter(
    (each) => each.queries === map.queries && each.keys === map.keys && each.kind === map.kind,
  );
  const weights = mean(await Promise.all(alike.map((each) => trace.weights(each))));
  const query = trace.axis(map.query);
  return {
    site,
    head,
    heads: headsOf(trace, site),
    map,
    query,
    key: trace.axis(map.key),
    weights,
    averaged: alike.length > 1 ? alike.length : 0,
  };
}

/** The look that the state speaks of; null while it loads and for a trace that looks at nothing. */
export function useLook(trace: LoadedTrace, state: State, wanted = true): Loaded<Look | null> {
  const site = siteOf(trace, state);
  return useLoaded(
    async () => (site === null || !wanted ? null : lookAt(trace, site, state.head)),
    [site, state.head, wanted],
    trace,
  );
}
