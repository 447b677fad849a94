// Light or dark: what the reader chose, else what their system says; and the colours that go with it.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { type Colours, coloursOf } from "./colours";
import type { PageData, State } from "./types";

const NONE = coloursOf({ scale: { light: "", dark: "" } } as PageData, false);

export const Palette = createContext<Colours>(NONE);

/** How a picture is drawn on a sheet for a paper, where nothing is chosen or hovered over; null: it stands on the page. */
export interface Sheet {
  /** pixels downwards at most */
  tallest: number;
  marginals: boolean;
  /** the titles of a matrix's sides; "": none */
  rows: string;
  columns: string;
}

export const OnSheet = createContext<Sheet | null>(null);

export function useColours(): Colours {
  return useContext(Palette);
}

function matches(query: string): boolean {
  return typeof matchMedia === "function" && matchMedia(query).matches;
}

export function useMedia(query: string): boolean {
  const [is, tell] = useState(matches(query));
  useEffect(() => {
    const media = matchMedia(query);
    const told = () => tell(media.matches);
    told();
    media.addEventListener("change", told);
    return () => media.removeEventListener("change", told);
  }, [query]);
  return is;
}

/** Whether things may move: what moves must then move at once. */
export function useStill(): boolean {
  return useMedia("(prefers-reduced-motion: reduce)");
}

export function useDark(theme: State["theme"]): boolean {
  const system = useMedia("(prefers-color-scheme: dark)");
  return theme === "auto" ? system : theme === "dark";
}

/** The style sheet reads its colours from here, so that there is one place where they are chosen. */
export function paint(colours: Colours): void {
  const { style } = document.documentElement;
  for (const name of ["paper", "ink", "quiet", "line", "accent", "changed"] as const)
    style.setProperty(`--${name}`, colours[name]);
  style.colorScheme = colours.dark ? "dark" : "light";
}
