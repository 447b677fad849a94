// The line that asks a model about a file: a sound or a picture, chosen, dropped on the page, or recorded.
import { useEffect, useState } from "preact/hooks";
import { type AskingProps, Problem, useRun } from "./asking";
import { carried } from "./carried";
import "./asking_file.css";

const ACCEPTED: Record<string, { accept: string; word: string }> = {
  audio: { accept: "audio/*,.wav,.flac,.ogg,.mp3,.sph", word: "a sound" },
  image: { accept: "image/*", word: "a picture" },
};

/** What files are called here; undefined: this model reads text. */
export function fileKind(kind: string | undefined): { accept: string; word: string } | undefined {
  return kind === undefined ? undefined : ACCEPTED[kind];
}

export function AskingFile(props: AskingProps) {
  const { live, trace, input } = props;
  const { accept, word } = fileKind(live.info.input)!;
  const { busy, problem, ask, fail, forget } = useRun(props);
  const [name, call] = useState(input);
  useEffect(() => call(input), [input, trace]);
  const take = (file: Blob, called: string) => {
    call(called);
    void ask(async () => {
      const sound = live.info.input === "audio" && file instanceof File && carried.sound;
      return live.run({ base64: await base64Of(sound ? await carried.sound!.readable(file) : file) }, called);
    });
  };
  const [over, drag] = useState(false);
  useDropping(
    (file) => !busy && take(file, file.name),
    (on) => drag(on),
  );
  return (
    <div class={over ? "asking file over" : "asking file"}>
      <label class="button">
        {busy ? "running …" : `choose ${word}`}
        <input
          type="file"
          class="unseen"
          accept={accept}
          disabled={busy}
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            event.currentTarget.value = ""; // so that the same file can be chosen again
            if (file) take(file, file.name);
          }}
        />
      </label>
      {live.info.input === "audio" && carried.sound && (
        <carried.sound.Recorder busy={busy} done={(sound) => take(sound, "a recording")} failed={fail} />
      )}
      <span class="hint">or drop one on this page</span>
      {name && <bdi dir="auto">{name}</bdi>}
      <Problem problem={problem} back={trace && forget} />
    </div>
  );
}

/** Files that are dropped anywhere on the page. */
function useDropping(take: (file: File) => void, over: (on: boolean) => void): void {
  useEffect(() => {
    const enter = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      over(true);
    };
    const leave = (event: DragEvent) => event.relatedTarget === null && over(false);
    const drop = (event: DragEvent) => {
      const file = event.dataTransfer?.files[0];
      over(false);
      if (!file) return;
      event.preventDefault();
      take(file);
    };
    document.addEventListener("dragover", enter);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", enter);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
    };
  });
}

async function base64Of(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
