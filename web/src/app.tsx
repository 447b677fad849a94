// The shell: header, input, tabs, the view in front, and the footer that says the moment and scrubs through the steps.
import { Component, type ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { carried } from "./carried";
import { coloursOf } from "./colours";
import { type Picture, Pictures, Title } from "./figure";
import { Footer } from "./footer";
import { factsOf } from "./grouping";
import { Header } from "./header";
import { InputLine } from "./input_line";
import { KeyList, useKeys } from "./keys";
import type { Show } from "./live";
import { headsOf, useLook } from "./look";
import { Places } from "./parts";
import { useSentence, Voice } from "./readout";
import { createStore, fromHash, landmarks, siteOf, START, stepsOf, toHash } from "./state";
import { Palette, paint, useDark } from "./theme";
import type { LoadedTrace, PageData, Part, State, View, ViewProps } from "./types";
import { VIEWS } from "./views";
import "./app.css";

/** The views that this trace has something for. */
function viewsOf(trace: LoadedTrace, traces: LoadedTrace[]): View[] {
  return VIEWS.filter((view) => {
    try {
      return view.serves(trace, traces);
    } catch {
      return false;
    }
  });
}

function useStore(traces: LoadedTrace[]) {
  const now = useRef(traces);
  now.current = traces;
  const start = useMemo(() => ({ ...START }), []);
  const store = useMemo(() => createStore(() => now.current, fromHash(address(), start)), []);
  const [state, tell] = useState<State>(store.get());
  useEffect(() => store.subscribe(tell), [store]);
  useEffect(() => {
    const follow = () => store.put({ ...fromHash(address(), start), hover: null });
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [store]);
  const hash = toHash(state, start);
  const last = useRef<string | null>(null);
  useEffect(() => {
    remember(hash, last.current);
    last.current = hash;
  }, [hash]);
  return { store, state };
}

function address(): string {
  return location.hash;
}

/**
 * The address of what is shown. Another tab, trace or question is a place that “back” comes back to, unless the address
 * itself led there: then it is not the one that was written `last`. A notebook's frame has no address, and refuses one.
 */
function remember(hash: string, last: string | null): void {
  try {
    const old = location.hash.replace(/^#/, "");
    if (old === hash) return;
    const turns = old === last && landmarks(old) !== landmarks(hash);
    const address = hash ? `#${hash}` : location.pathname + location.search;
    history[turns ? "pushState" : "replaceState"](null, "", address);
  } catch {
    return;
  }
}

export function App({ page, traces: given }: { page: PageData; traces: LoadedTrace[] }) {
  const [traces, setTraces] = useState(given);
  const { store, state } = useStore(traces);
  const dark = useDark(state.theme);
  const colours = useMemo(() => coloursOf(page, dark), [page, dark]);
  // Before the first picture: a dark page must not begin with a white flash.
  useLayoutEffect(() => paint(colours), [colours]);
  const pictures = useMemo(() => new Set<Picture>(), []);
  const [unanswered, tellUnanswered] = useState<number | null>(null);
  const show = useCallback<Show>((trace, place, fresh, more) => {
    setTraces((old) => (old.length ? old.map((each, i) => (i === place ? trace : each)) : [trace]));
    // The same input under a change is looked at where the reader stands.
    const begins = fresh && store.get().trace === place ? { key: null, hover: null, step: START.step } : {};
    store.set({ ...begins, more });
  }, []);
  const live = useMemo(
    () => (page.live && carried.asking ? carried.asking.liveOf(page.live, given, () => store.get().trace, show) : null),
    [page.live],
  );
  const failed = unanswered === state.trace;
  const fail = (fails: boolean) => tellUnanswered(fails ? store.get().trace : null);
  useEffect(() => store.settle(), [traces]);
  const trace = traces[Math.min(state.trace, traces.length - 1)];
  const [listed, list] = useState(false);
  const help = () => list(true);
  return (
    <Palette.Provider value={colours}>
      <Title.Provider value={page.title}>
        <Pictures.Provider value={pictures}>
          <div class="page">
            <Header page={page} trace={trace} dark={dark} set={store.set} list={help} />
            <InputLine {...{ traces, trace, state, live, failed, fail }} set={store.set} named={store.named} />
            {trace && !failed ? (
              <Explorer
                key={state.trace}
                trace={trace}
                traces={traces}
                state={state}
                set={store.set}
                live={live}
                list={help}
              />
            ) : (
              <p class="empty">
                {failed
                  ? "The model gave no answer to this, so there is no picture of it."
                  : live
                    ? "Nothing was asked yet: ask the model above."
                    : "This page holds no trace."}
              </p>
            )}
            {listed && <KeyList close={() => list(false)} />}
          </div>
        </Pictures.Provider>
      </Title.Provider>
    </Palette.Provider>
  );
}

type ExplorerProps = ViewProps & { list(): void };

function Explorer(props: ExplorerProps) {
  const { trace, state, set, list } = props;
  const views = useMemo(() => viewsOf(trace, props.traces), [trace, props.traces]);
  const view = views.find((each) => each.id === state.view) ?? views.find((each) => each.front?.(trace)) ?? views[0];
  const [said, say] = useState<Part[] | null>(null);
  const [playing, play] = useState(false);
  const { value: look } = useLook(trace, state, !view?.picks);
  const sentence = useSentence(look, trace.about, state);
  const parts = said ?? sentence ?? [];
  const follows = view?.scrubs?.(state) ?? true;
  const toggle = () => {
    if (!follows) return;
    const { first, count } = stepsOf(trace, state);
    // Played at its end, it begins anew.
    if (!playing && state.step >= first + count - 1) set({ step: first });
    play(!playing);
  };
  const most = () => (look ? factsOf(look.weights, state.step - look.map.step).argmax : -1);
  useKeys({ trace, state, set, most, toggle, list });
  useEffect(() => void (follows || play(false)), [follows]);
  return (
    <Voice.Provider value={say}>
      <div class="tabs-row">
        <Tabs views={views} view={view} set={set} />
        {carried.Tour && <carried.Tour trace={trace} state={state} set={set} />}
      </div>
      <main class="stage" aria-label={view?.title ?? "nothing"}>
        {view && !view.picks && <Where trace={trace} state={state} set={set} />}
        {view ? (
          <Guard key={view.id}>
            <view.Component {...props} />
          </Guard>
        ) : (
          <p class="empty">
            This trace holds nothing that can be drawn: no maps, no states, no outputs. Look again with a lens that
            keeps some.
          </p>
        )}
      </main>
      <Footer
        trace={trace}
        state={state}
        set={set}
        parts={parts}
        follows={follows}
        playing={playing}
        toggle={toggle}
        stop={() => play(false)}
      />
    </Voice.Provider>
  );
}

function Tabs({ views, view, set }: { views: View[]; view: View | undefined; set: ExplorerProps["set"] }) {
  const row = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = row.current?.querySelector<HTMLElement>("[aria-current]");
    if (!row.current || !current) return;
    // On a phone the row scrolls: just so far that the tab of the view in front is in sight.
    const [left, room] = [current.offsetLeft - row.current.offsetLeft, row.current.clientWidth];
    row.current.scrollLeft = Math.min(left, Math.max(row.current.scrollLeft, left + current.offsetWidth - room));
  }, [view]);
  return (
    <nav class="tabs" aria-label="views" ref={row}>
      {views.map((each) => (
        <button
          key={each.id}
          title={each.about}
          aria-current={each === view ? "page" : undefined}
          onClick={() => set({ view: each.id })}
        >
          {each.title}
        </button>
      ))}
    </nav>
  );
}

function Where({ trace, state, set }: Pick<ExplorerProps, "trace" | "state" | "set">) {
  const site = siteOf(trace, state);
  const heads = site === null ? [] : headsOf(trace, site);
  if (trace.sites.length < 2 && heads.length < 2) return null;
  return (
    <div class="where">
      <Places sites={trace.sites} site={site} heads={heads} head={state.head} set={set} />
    </div>
  );
}

/** A view that fails takes nothing else with it. */
class Guard extends Component<{ children: ComponentChildren }, { failed: boolean }> {
  state = { failed: false };

  componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ failed: true });
  }

  render() {
    if (!this.state.failed) return this.props.children;
    return (
      <p class="problem" role="alert">
        This view could not be drawn from this trace. The other views may still show it.
      </p>
    );
  }
}

export function Problem({ message }: { message: string }) {
  return (
    <div class="page">
      <header class="header">
        <h1>saccade</h1>
      </header>
      <p class="problem" role="alert">
        {message}
      </p>
    </div>
  );
}
