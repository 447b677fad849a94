// Audio: time across, what was written down, the spectrogram above; the sound plays and shows what was written where.
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useDrawn } from "../drawn";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { isSpecial, number, short } from "../labels";
import { type Look, useLoaded } from "../look";
import { Waiting } from "../parts";
import { useSay } from "../readout";
import { ColourBar, ScalePicker } from "../colour_bar";
import { type ScaleName, scaleOf, SCALES } from "../scale";
import { OnSheet, useColours } from "../theme";
import type { LoadedTrace, PageAxis, PageMap, PageTrace, Part, View, ViewProps } from "../types";
import {
  bandsPicture,
  drawSound,
  lookedAt,
  type Plan,
  planOf,
  playedOf,
  type Sound,
  type Spot,
  spotAt,
  stretchOf,
  timeOf,
  weightsPicture,
  writtenAt,
} from "./audio_drawing";
import { Choices, keyKind, largestOf, opening, serving, useFitting } from "./sources";
import "./audio.css";

function fits(map: PageMap, trace: PageTrace): boolean {
  return keyKind(trace, map) === "frames" && map.query !== map.key;
}

export const audio: View = {
  id: "audio",
  title: "Audio",
  about: "The sound over time, and which stretch of it each letter was heard in.",
  picks: true,
  serves: serving(fits),
  front: serving(fits),
  Component: Audio,
};

function Audio(props: ViewProps) {
  const { trace } = props;
  const { value: look, error, sites } = useFitting(props, fits);
  const block = look?.key.spectrogram;
  const { value: numbers, error: broken } = useLoaded(
    async () => (block ? trace.numbers(block) : null),
    [block],
    trace,
  );
  if (!look || (block && !numbers)) return <Waiting error={error ?? broken} />;
  const bands =
    block && numbers && block.shape.length === 2
      ? { values: numbers, rows: block.shape[0]!, columns: block.shape[1]! }
      : null;
  return <AudioOf {...props} look={look} bands={bands} sites={sites} />;
}

type AudioProps = ViewProps & { look: Look; bands: Sound["bands"]; sites: string[] };

function AudioOf({ trace, state, set, look, bands, sites }: AudioProps) {
  const { map, weights, key, query } = look;
  const labels = useMemo(
    () => Array.from({ length: weights.rows }, (_, row) => query.labels[map.step + row] ?? String(map.step + row)),
    [look],
  );
  const { scale: chosen } = state.more;
  // Frames are many, and yet a step listens to a stretch of them: the plain scale shows it best.
  const name = typeof chosen === "string" && Object.hasOwn(SCALES, chosen) ? (chosen as ScaleName) : "map";
  const scale = useMemo(() => scaleOf(name, weights), [name, weights]);
  const sound = useMemo((): Sound => ({ axis: key, bands, labels, weights, scale }), [look, bands?.values, scale]);
  const owners = useMemo(() => writtenAt(weights), [weights]);
  const [asked, ask] = useState<number | null>(null);
  useEffect(() => ask(null), [look]);
  const playhead = useRef<HTMLDivElement>(null);
  const plan = useRef<Plan | null>(null);
  const tell = (seconds: number, whole: boolean) => {
    if (!moveLine(playhead.current, plan.current, seconds / (weights.columns * (key.seconds || 0)))) return;
    if (!whole) return; // one letter's stretch, in which others may have listened, too
    const row = owners[Math.floor(seconds / key.seconds!)] ?? -1;
    if (row >= 0 && map.step + row !== state.step) set({ step: map.step + row });
  };
  const player = usePlayer(key.audio, tell);
  const play = (spot: Spot) => {
    if (!key.seconds) return;
    const frame = spot.frame < 0 ? largestOf(weights.row(spot.row)).at : spot.frame;
    if (frame < 0) return;
    if (spot.row < 0) return player.play(frame * key.seconds);
    const [from, to] = playedOf(weights, spot.row, frame, Math.round(LINGER / key.seconds));
    player.play(from * key.seconds, to * key.seconds);
  };
  const hear = (row: number) => {
    ask(null);
    set({ step: map.step + row, key: null, hover: null });
    play({ row, frame: -1 });
  };
  const at = (spot: Spot | null) =>
    spot && spot.row >= 0 && spot.frame >= 0 ? { step: map.step + spot.row, key: spot.frame } : null;
  const [passed, pass] = useState<number | null>(null);
  const point = (spot: Spot | null) => {
    pass(spot && spot.row < 0 ? spot.frame : null);
    set({ hover: at(spot) });
  };
  const lock = (spot: Spot | null) => {
    ask(null);
    set({ ...at(spot), hover: null, key: spot?.frame ?? null });
  };
  const pick = (spot: Spot | null) => {
    if (spot && spot.row < 0) {
      ask(spot.frame);
      player.seek(spot.frame * (key.seconds || 0));
      return set({ key: null, hover: null });
    }
    if (spot && spot.frame < 0) return hear(spot.row);
    lock(spot);
    if (spot) play(spot);
  };
  const hover = state.hover && { row: state.hover.step - map.step, frame: state.hover.key };
  const locked = state.key === null ? null : { row: state.step - map.step, frame: state.key };
  const frame = hover ? null : (passed ?? asked);
  useSay(
    frame === null
      ? said(look, trace, hover ?? { row: state.step - map.step, frame: state.key ?? -1 })
      : whoLooked(look, labels, frame),
  );
  return (
    <Figure
      name="audio"
      table={tableOf(look, labels)}
      controls={
        <>
          <Choices look={look} sites={sites} state={state} set={set} steps={false} />
          <ScalePicker name={name} set={set} />
          <Playing look={look} player={player} />
        </>
      }
      caption={<Caption look={look} sound={player.can} problem={player.problem} said={scale.said} />}
    >
      <Transcript query={query} first={map.step} labels={labels} row={state.step - map.step} hear={hear} />
      <Picture
        {...{ sound, hover, locked, asked, play, pick, lock, player }}
        row={state.step - map.step}
        point={point}
        line={playhead}
        told={(now) => {
          plan.current = now;
          moveLine(playhead.current, now, player.at / (weights.columns * (key.seconds || 0)));
        }}
      />
      <ColourBar scale={scale} />
    </Figure>
  );
}

const MOST_LETTERS = 2000;

/** What was written, to be clicked and heard: by pointer alone, since the picture's rows are the same by keys. */
function Transcript({
  query,
  first,
  labels,
  row,
  hear,
}: {
  query: PageAxis;
  first: number;
  labels: string[];
  row: number;
  hear(row: number): void;
}) {
  const text = [...(query.text ?? "")];
  const piece = (label: string, at: number) => {
    const span = query.spans?.[first + at];
    return (span && text.slice(...span).join("")) || label;
  };
  const apart = query.text ? "" : " ";
  return (
    <p class="transcript" dir="auto" aria-hidden="true" data-export="no">
      {labels.slice(0, MOST_LETTERS).map((label, at) =>
        isSpecial(query, first + at) ? null : (
          <span key={at} class={at === row ? "now" : undefined} onClick={() => hear(at)}>
            {piece(label, at) + apart}
          </span>
        ),
      )}
    </p>
  );
}

/** Puts the line of what is heard at a share of the time line; false where there is none. */
function moveLine(line: HTMLElement | null, plan: Plan | null, share: number): boolean {
  if (!line || !plan || !Number.isFinite(share)) return false;
  line.style.transform = `translateX(${plan.left + Math.min(1, share) * plan.span}px)`;
  return true;
}

const LINGER = 0.5; // seconds that a letter is played on at most
const SILENT = "This trace holds no sound to play.";

/** How far it has played, and the button. */
function Playing({ look, player }: { look: Look; player: Player }) {
  const { key, weights } = look;
  const { can, playing, problem } = player;
  const now = number((key.start ?? 0) + player.at);
  const time = key.seconds ? `${now} of ${timeOf(key, weights.columns)}` : `${weights.columns} frames`;
  const toggle = () => (playing ? player.stop() : player.play(player.at));
  return (
    <>
      <span class="time">{time}</span>
      <button disabled={!can} title={can ? undefined : (problem ?? SILENT)} onClick={toggle}>
        {playing ? "pause the sound" : "play the sound"}
      </button>
    </>
  );
}

interface Player {
  can: boolean;
  playing: boolean;
  /** seconds, told a few times a second */
  at: number;
  problem: string | null;
  play(from: number, to?: number): void;
  /** where it goes on from */
  seek(to: number): void;
  stop(): void;
}

/** Plays what the page carries; `tell` hears where it is at each picture of the screen, and whether it plays to the end. */
function usePlayer(address: string | undefined, tell: (seconds: number, whole: boolean) => void): Player {
  const [playing, setPlaying] = useState(false);
  const [at, setAt] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  const until = useRef(Infinity);
  const told = useRef(tell);
  told.current = tell;
  const own = address?.startsWith("data:audio/") ? address : undefined;
  const element = useMemo(() => (own ? new window.Audio(own) : null), [own]);
  useEffect(
    () => () => {
      element?.pause();
      setPlaying(false);
    },
    [element],
  );
  useFollowing(playing ? element : null, (now, ended) => {
    told.current(now, until.current === Infinity);
    setAt(Math.round(now * 10) / 10);
    if (!ended && now < until.current) return true;
    element?.pause();
    if (ended) setAt(0);
    setPlaying(false);
    return false;
  });
  return {
    can: !!element && problem === null,
    playing,
    at,
    problem,
    play(from, to = Infinity) {
      if (!element) return;
      until.current = to;
      element.currentTime = from;
      element.play().then(
        () => setPlaying(true),
        (error: Error) => error.name !== "AbortError" && setProblem("This browser cannot play the sound in this page."),
      );
    },
    seek(to) {
      element?.pause();
      setPlaying(false);
      if (element) setAt(to);
    },
    stop() {
      element?.pause();
      setPlaying(false);
    },
  };
}

/** Says where a sound is at each picture that the screen shows, until `heard` wants no more. */
function useFollowing(element: HTMLAudioElement | null, heard: (seconds: number, ended: boolean) => boolean): void {
  useEffect(() => {
    if (!element) return;
    let frame = 0;
    const follow = () => {
      if (heard(element.currentTime, element.ended)) frame = requestAnimationFrame(follow);
    };
    frame = requestAnimationFrame(follow);
    return () => cancelAnimationFrame(frame);
  }, [element]);
}

interface PictureProps {
  sound: Sound;
  row: number;
  hover: Spot | null;
  locked: Spot | null;
  asked: number | null;
  point(spot: Spot | null): void;
  pick(spot: Spot | null): void;
  /** as pick, and plays nothing */
  lock(spot: Spot): void;
  play(spot: Spot): void;
  player: Player;
  line: { current: HTMLDivElement | null };
  told(plan: Plan): void;
}

const AROUND = 400; // pixels of the page above and below the picture

function Picture(props: PictureProps) {
  const { sound, point, pick, player } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const plan = planOf(sound, width, Math.max(360, window.innerHeight - AROUND));
  useLayoutEffect(() => props.told(plan));
  useDrawing(canvas, plan, props);
  const spot = (event: MouseEvent) => {
    const frame = canvas.current!.getBoundingClientRect();
    return spotAt(plan, sound, event.clientX - frame.left, event.clientY - frame.top);
  };
  const last = useRef<Spot | null>(null);
  const move = (event: PointerEvent) => {
    const next = spot(event);
    if (next?.row === last.current?.row && next?.frame === last.current?.frame) return;
    last.current = next;
    point(next);
  };
  const leave = () => {
    last.current = null;
    point(null);
  };
  const click = (event: MouseEvent) => {
    const next = spot(event);
    if (next) pick(next);
  };
  return (
    <div class="audio" ref={box}>
      <canvas
        ref={canvas}
        role="application"
        aria-roledescription="sound"
        aria-label={`${sound.labels.length} steps written, ${sound.weights.columns} frames of sound. Arrow keys move, Enter plays what was heard there, Space plays or pauses, Escape lets go.`}
        tabIndex={0}
        style={{ width: `${plan.width}px`, height: `${plan.height}px`, cursor: "pointer" }}
        onPointerMove={move}
        onPointerLeave={leave}
        onClick={click}
        onKeyDown={(event) => keyed(event, props)}
      />
      <div
        class="playhead"
        data-export="no"
        ref={props.line}
        style={{ height: `${plan.height - 26}px`, visibility: player.playing || player.at ? "visible" : "hidden" }}
      />
    </div>
  );
}

function useDrawing(
  canvas: { current: HTMLCanvasElement | null },
  plan: Plan,
  { sound, row, hover, locked, asked }: PictureProps,
): void {
  const colours = useColours();
  const sheet = useContext(OnSheet);
  const density = window.devicePixelRatio || 1;
  const pictures = useMemo(
    () => ({
      bands: sound.bands && bandsPicture(sound.bands, colours),
      weights: weightsPicture(sound, plan.span * density, colours),
    }),
    [sound, colours, plan.span, density],
  );
  useDrawn(canvas, plan.width, plan.height, (pen, _, ctx) =>
    drawSound(pen, plan, sound, pictures, {
      ...(sheet ? { row: -1, locked: null, asked: null } : { row, locked, asked }),
      hover: ctx && !sheet ? hover : null,
      colours,
    }),
  );
}

const MOVES: Record<string, [number, number]> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

function keyed(event: KeyboardEvent, { sound, row, locked, lock, pick, play, player }: PictureProps): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { weights } = sound;
  const move = MOVES[event.key];
  // Where nothing is chosen yet, one begins where the row looks most.
  const strongest = Math.max(0, largestOf(weights.row(Math.max(0, row))).at);
  const here = locked ?? { row: Math.max(0, row), frame: strongest };
  const to = (next: Spot) =>
    lock({
      row: Math.max(0, Math.min(weights.rows - 1, next.row)),
      frame: Math.max(0, Math.min(weights.columns - 1, next.frame)),
    });
  if (move && !locked) to(here);
  else if (move)
    to({
      row: here.row + move[0],
      frame: move[0] ? strongestIn(sound, here.row + move[0], here.frame) : here.frame + move[1],
    });
  else if (event.key === "Home") to({ ...here, frame: 0 });
  else if (event.key === "End") to({ ...here, frame: weights.columns - 1 });
  else if (event.key === "Enter") play(here);
  else if (event.key === " ") player.playing ? player.stop() : play({ row: -1, frame: here.frame });
  else if (event.key === "Escape") {
    player.stop();
    pick(null);
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

function strongestIn({ weights }: Sound, row: number, otherwise: number): number {
  const at = row >= 0 && row < weights.rows ? largestOf(weights.row(row)).at : -1;
  return at < 0 ? otherwise : at;
}

function said(look: Look, trace: LoadedTrace, { row, frame }: Spot): Part[] {
  const { weights, map, key } = look;
  if (row < 0 || row >= weights.rows) return [];
  const why = opening(look, trace.about, map.step + row);
  if (frame >= 0) {
    const weight = weights.at(row, frame);
    return [
      ...why,
      Number.isFinite(weight)
        ? `gave ${timeOf(key, frame)} a weight of ${number(weight, weights.exact)}.`
        : `gave ${timeOf(key, frame)} a weight that is not a number.`,
    ];
  }
  const values = weights.row(row);
  const { at } = largestOf(values);
  if (at < 0) return [...why, "looked at nothing."];
  const [from, to] = stretchOf(weights, row, at);
  const share = values.slice(from, to).reduce((sum, value) => sum + value, 0);
  return [
    ...why,
    `listened from ${timeOf(key, from)} to ${timeOf(key, key.seconds ? to : to - 1)} (${number(share, weights.exact)}).`,
  ];
}

/** "At 0.82 s h (0.31) and e (0.22) listened." */
function whoLooked({ key, weights }: Look, labels: string[], frame: number): Part[] {
  const rows = lookedAt(weights, frame);
  if (!rows.length) return [`Nothing that was written listened at ${timeOf(key, frame)}.`];
  const named = rows.flatMap((row, i): Part[] => [
    i === 0 ? "" : i === rows.length - 1 ? " and " : ", ",
    { token: short(labels[row] ?? "") },
    ` (${number(weights.at(row, frame), weights.exact)})`,
  ]);
  return [`At ${timeOf(key, frame)} `, ...named, " listened."];
}

function tableOf({ map, key, weights }: Look, labels: string[]): Table {
  return {
    corner: map.query,
    columns: Array.from({ length: weights.columns }, (_, frame) => timeOf(key, frame)),
    rows: labels.length,
    rowLabel: (row) => labels[row] ?? "",
    cell: (row, column) => number(weights.at(row, column), weights.exact, 3),
  };
}

interface CaptionProps {
  look: Look;
  sound: boolean;
  problem: string | null;
  /** of the colours */
  said: string;
}

function Caption({ look, sound, problem, said }: CaptionProps) {
  const { weights, key, averaged, heads } = look;
  return (
    <>
      {`${weights.rows} steps, written from ${key.seconds ? timeOf(key, weights.columns) : `${weights.columns} frames`} of sound. `}
      {key.spectrogram && "Above, low tones are at the bottom, and louder ones stronger in colour. "}
      {`${said} `}
      {sound
        ? "Click a letter or a cell to hear the stretch that it listened to, the spectrogram to see which letters listened there."
        : (problem ?? SILENT)}
      {key.segments?.length ? " Lines are true boundaries." : ""}
      {averaged > 0 && ` This is the mean of ${heads.length} heads.`}
    </>
  );
}
