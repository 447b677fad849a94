// Whose trace this is, and what can be done with the page as a whole.
import { useContext, useEffect, useState } from "preact/hooks";
import { carried } from "./carried";
import { type Picture, Pictures } from "./figure";
import { amount, number, spoken } from "./labels";
import { worded } from "./look";
import type { LoadedTrace, PageData, ViewProps } from "./types";

const READ = 6000; // milliseconds that a word about what was done stays

interface HeaderProps {
  page: PageData;
  trace: LoadedTrace | undefined;
  dark: boolean;
  set: ViewProps["set"];
  /** shows the keys */
  list(): void;
}

export function Header({ page, trace, dark, set, list }: HeaderProps) {
  const [told, tell] = useState("");
  const [sheet, lay] = useState<Picture | null>(null);
  const pictures = useContext(Pictures);
  useEffect(() => {
    const timer = setTimeout(() => tell(""), READ);
    return () => clearTimeout(timer);
  }, [told]);
  const first = () => {
    const found = pictures.values().next().value;
    tell(found ? "" : "there is no picture here to save");
    return found;
  };
  const save = (kind: Parameters<Picture["save"]>[0]) =>
    first()
      ?.save(kind)
      .catch((error: unknown) => tell(worded(error)));
  const theme = dark ? "light" : "dark";
  return (
    <header class="header">
      <h1>saccade</h1>
      <p class="facts">{factsOf(page, trace).join(" · ")}</p>
      <div class="actions">
        <span class="told" role="status">
          {told}
        </span>
        <button class="quiet" aria-label={`${theme} colours`} onClick={() => set({ theme })}>
          {theme}
        </button>
        {hasAddress() && (
          <button
            class="quiet"
            title="copies the address of what you see now"
            onClick={async () => tell(await copied())}
          >
            share
          </button>
        )}
        <button class="quiet" aria-label="save the picture as PNG" onClick={() => void save("png")}>
          PNG
        </button>
        <button class="quiet" aria-label="save the picture as SVG" onClick={() => void save("svg")}>
          SVG
        </button>
        {carried.Sheet && (
          <button
            class="quiet"
            aria-label="paper: a sheet for papers"
            title="the picture in millimetres, in light colours, as PDF, SVG or PNG"
            onClick={() => lay(first() ?? null)}
          >
            paper
          </button>
        )}
        <button class="quiet" aria-label="? list of keys" title="list of keys" onClick={list}>
          ?
        </button>
      </div>
      {sheet && carried.Sheet && <carried.Sheet page={page} picture={sheet} close={() => lay(null)} />}
    </header>
  );
}

/** "rnnsearch_dates · 273 K parameters · exact match 99.8 %": what the trace says of its model. */
function factsOf(page: PageData, trace: LoadedTrace | undefined): string[] {
  const about = trace?.about ?? {};
  const facts: string[] = [about.recipe ?? about.model ?? page.title];
  if (typeof about.parameters === "number") facts.push(`${amount(about.parameters)} parameters`);
  const metric = Object.entries(about.metrics ?? {}).find(([, value]) => Number.isFinite(value));
  if (metric) facts.push(`${spoken(metric[0])} ${percent(metric[1])}`);
  return facts;
}

/** Figures between 0 and 1 are shares; others (BLEU) stand as they are. */
function percent(value: number): string {
  return value >= 0 && value <= 1 ? `${number(100 * value, true, 1)}\u00a0%` : number(value, true, 1);
}

function hasAddress(): boolean {
  return /^(https?|file):$/.test(location.protocol);
}

async function copied(): Promise<string> {
  try {
    await navigator.clipboard.writeText(location.href);
    return "address copied";
  } catch {
    return "copy it from the address bar";
  }
}
