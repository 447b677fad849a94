// Audio: time across, what was written down, the spectrogram above; the sound plays and shows what was written where.
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useDrawn } from "../drawn";
import { Figure, type Table } from "../figure";
import { useWidth } from "../heatmap";
import { number } from "../labels";
import { type Look, useLoaded } from "../look";
import { Waiting } from "../parts";
import { useSay } from "../readout";
import { ColourBar, ScalePicker } from "../colour_bar";
import { type ScaleName, scaleOf, SCALES } from "../scale";
import { OnSheet, useColours } from "../theme";
import type { LoadedTrace, PageMap, PageTrace, Part, View, ViewProps } from "../types";
import {
  bandsPicture,
  drawSound,
  type Plan,
  planOf,
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
  const playhead = useRef<HTMLDivElement>(null);
  const plan = useRef<Plan | null>(null);
  const tell = (seconds: number) => {
    if (!moveLine(playhead.current, plan.current, seconds / (weights.columns * (key.seconds || 0)))) return;
    const row = owners[Math.floor(seconds / key.seconds!)] ?? -1;
    if (row >= 0 && map.step + row !== state.step) set({ step: map.step + row });
  };
  const player = usePlayer(key.audio, tell);
  const play = (spot: Spot) => {
    if (!key.seconds) return;
    const [from, to] = spot.row < 0 ? [spot.frame, weights.columns] : stretchOf(weights, spot.row, spot.frame);
    player.play(from * key.seconds, to * key.seconds);
  };
  const at = (spot: Spot | null) => (spot && spot.row >= 0 ? { step: map.step + spot.row, key: spot.frame } : null);
  const hover = state.hover && { row: state.hover.step - map.step, frame: state.hover.key };
  const locked = state.key === null ? null : { row: state.step - map.step, frame: state.key };
  useSay(said(look, trace, hover ?? { row: state.step - map.step, frame: state.key ?? -1 }));
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
      <Picture
        {...{ sound, hover, locked, play }}
        row={state.step - map.step}
        onHover={(spot) => set({ hover: at(spot) })}
        onPick={(spot) => set({ ...at(spot), hover: null, key: spot?.frame ?? null })}
        stop={player.stop}
        playing={player.playing}
        line={playhead}
        told={(now) => (plan.current = now)}
      />
      <ColourBar scale={scale} />
    </Figure>
  );
}

/** Puts the line of what is heard at a share of the time line; false where there is none. */
function moveLine(line: HTMLElement | null, plan: Plan | null, share: number): boolean {
  if (!line || !plan || !Number.isFinite(share)) return false;
  line.style.transform = `translateX(${plan.left + Math.min(1, share) * plan.span}px)`;
  return true;
}

const SILENT = "This trace holds no sound to play.";

/** How far it has played, and the button. */
function Playing({ look, player }: { look: Look; player: Player }) {
  const { key, weights } = look;
  const { can, playing, problem } = player;
  const time = key.seconds ? `${number(player.at)} of ${timeOf(key, weights.columns)}` : `${weights.columns} frames`;
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
  stop(): void;
}

/** Plays what the page carries; `tell` hears where it is at each picture that the screen shows. */
function usePlayer(address: string | undefined, tell: (seconds: number) => void): Player {
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
    told.current(now);
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
  onHover(spot: Spot | null): void;
  onPick(spot: Spot | null): void;
  play(spot: Spot): void;
  stop(): void;
  playing: boolean;
  line: { current: HTMLDivElement | null };
  told(plan: Plan): void;
}

const AROUND = 366; // pixels of the page above and below the picture

function Picture(props: PictureProps) {
  const { sound, hover, onHover, onPick, play, playing } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const plan = planOf(sound, width, Math.max(360, window.innerHeight - AROUND));
  props.told(plan);
  useDrawing(canvas, plan, props);
  const spot = (event: MouseEvent) => {
    const frame = canvas.current!.getBoundingClientRect();
    return spotAt(plan, sound, event.clientX - frame.left, event.clientY - frame.top);
  };
  const move = (event: PointerEvent) => {
    const next = spot(event);
    if (next?.row !== hover?.row || next?.frame !== hover?.frame) onHover(next);
  };
  const click = (event: MouseEvent) => {
    const next = spot(event);
    if (!next) return;
    onPick(next);
    play(next);
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
        onPointerLeave={() => onHover(null)}
        onClick={click}
        onKeyDown={(event) => keyed(event, props)}
      />
      <div
        class="playhead"
        data-export="no"
        ref={props.line}
        style={{ height: `${plan.height - 26}px`, visibility: playing ? "visible" : "hidden" }}
      />
    </div>
  );
}

function useDrawing(
  canvas: { current: HTMLCanvasElement | null },
  plan: Plan,
  { sound, row, hover, locked }: PictureProps,
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
      ...(sheet ? { row: -1, locked: null } : { row, locked }),
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

function keyed(event: KeyboardEvent, { sound, row, locked, onPick, play, stop, playing }: PictureProps): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { weights } = sound;
  const move = MOVES[event.key];
  // Where nothing is chosen yet, one begins where the row looks most.
  const strongest = Math.max(0, largestOf(weights.row(Math.max(0, row))).at);
  const here = locked ?? { row: Math.max(0, row), frame: strongest };
  const to = (next: Spot) =>
    onPick({
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
  else if (event.key === " ") playing ? stop() : play({ row: -1, frame: here.frame });
  else if (event.key === "Escape") {
    stop();
    onPick(null);
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
      {sound ? "Click a cell to hear the stretch that was listened to." : (problem ?? SILENT)}
      {averaged && ` This is the mean of ${heads.length} heads.`}
    </>
  );
}
