// A microphone for a model that reads sound, and sounds in forms that every server reads: WAV, mono, 16 bits.
import { useEffect, useRef, useState } from "preact/hooks";
import { worded } from "./look";

const RATE = 16_000; // Hz
const LONGEST = 10 * 60; // seconds of a recording
const READ = /\.(wav|flac|ogg|mp3|sph)$/i;

/** The file as a server reads it; others are decoded by the browser, which reads more kinds. */
export async function readable(file: File): Promise<Blob> {
  return READ.test(file.name) ? file : wavOf(await file.arrayBuffer());
}

/** What a browser can decode, as a WAV of one channel. */
export async function wavOf(encoded: ArrayBuffer): Promise<Blob> {
  const decoder = new OfflineAudioContext(1, 1, RATE); // which also brings sounds to its rate
  let sound: AudioBuffer;
  try {
    sound = await decoder.decodeAudioData(encoded);
  } catch {
    throw new Error("This browser cannot read that file as sound.");
  }
  const samples = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    const own = sound.getChannelData(channel);
    for (let i = 0; i < samples.length; i++) samples[i]! += own[i]! / sound.numberOfChannels;
  }
  return new Blob([header(samples.length), shorts(samples)], { type: "audio/wav" });
}

function shorts(samples: Float32Array): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(2 * samples.length));
  samples.forEach((value, i) => view.setInt16(2 * i, Math.round(Math.max(-1, Math.min(1, value)) * 32767), true));
  return view.buffer as ArrayBuffer;
}

function header(count: number): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(44));
  const write = (at: number, text: string) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // one channel
  view.setUint32(24, RATE, true);
  view.setUint32(28, 2 * RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 2 * count, true);
  return view.buffer as ArrayBuffer;
}

const REFUSED: Record<string, string> = {
  NotAllowedError: "The browser was not allowed to use the microphone.",
  NotFoundError: "The browser found no microphone.",
};

interface RecorderProps {
  busy: boolean;
  done(sound: Blob): void;
  failed(message: string): void;
}

/** A button that records until it is pressed again. Browsers lend the microphone only to this machine's or https pages. */
export function Recorder({ busy, done, failed }: RecorderProps) {
  const [seconds, tell] = useState<number | null>(null);
  const running = useRef<MediaRecorder | null>(null);
  const free = (recorder: MediaRecorder) => recorder.stream.getTracks().forEach((track) => track.stop());
  useEffect(
    () => () => {
      const recorder = running.current;
      running.current = null;
      if (!recorder) return;
      if (recorder.state !== "inactive") recorder.stop();
      free(recorder);
    },
    [],
  );
  useEffect(() => {
    if (seconds === null) return;
    const timer = setTimeout(() => (seconds >= LONGEST ? running.current?.stop() : tell(seconds + 1)), 1000);
    return () => clearTimeout(timer);
  }, [seconds]);
  if (!navigator.mediaDevices || typeof MediaRecorder === "undefined") return null;
  const begin = async () => {
    try {
      const recorder = new MediaRecorder(await navigator.mediaDevices.getUserMedia({ audio: true }));
      const parts: Blob[] = [];
      recorder.ondataavailable = ({ data }) => void parts.push(data);
      recorder.onstop = () => {
        free(recorder);
        if (running.current !== recorder) return;
        running.current = null;
        tell(null);
        void new Blob(parts)
          .arrayBuffer()
          .then(wavOf)
          .then(done, (error: unknown) => failed(worded(error)));
      };
      recorder.start();
      running.current = recorder;
      tell(0);
    } catch (error) {
      failed(REFUSED[(error as Error).name] ?? worded(error));
    }
  };
  const on = seconds !== null;
  return (
    <button
      type="button"
      disabled={busy}
      aria-pressed={on}
      onClick={() => (on ? running.current?.stop() : void begin())}
    >
      {on ? `stop and run (${seconds} s)` : "record"}
    </button>
  );
}
