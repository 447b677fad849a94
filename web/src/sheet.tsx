// The sheet: a picture as papers print it. So many millimetres wide, in light colours, with titles and without what a reader
// has chosen; it leaves as PDF, SVG or PNG.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { coloursOf } from "./colours";
import { download, fileName, pngOf, sheetOf } from "./exporting";
import { type Picture, Pictures } from "./figure";
import { worded } from "./look";
import { letterer } from "./outlines";
import { Switch } from "./parts";
import { pdfOf, type Pixels, type Shape } from "./pdf";
import { SMALL } from "./pen";
import { withDensity } from "./png";
import { Voice } from "./readout";
import { OnSheet, Palette } from "./theme";
import type { PageData } from "./types";
import "./sheet.css";

const [NARROWEST, WIDEST] = [20, 400]; // millimetres
const [SMALLEST, LARGEST] = [4, 24]; // points, of letters
const PIXELS = 600; // an inch, of PNG: what journals ask of drawings
const HIGHEST = 240; // millimetres: a page of a paper
const INCH = 25.4;

export interface SheetProps {
  page: PageData;
  picture: Picture;
  close(): void;
}

const KINDS = ["pdf", "svg", "png"] as const;
type Kind = (typeof KINDS)[number];

export function Sheet({ page, picture, close }: SheetProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(88);
  const [letters, setLetters] = useState(8);
  const [titles, setTitles] = useState(picture.titles ?? { rows: "", columns: "" });
  const [marginals, show] = useState(false);
  const [told, tell] = useState("");
  const colours = useMemo(() => coloursOf(page, false), [page]);
  const [content, own] = useMemo(() => [picture.content(), picture.width()], [picture]);
  useEffect(() => dialog.current?.showModal(), []);
  const wide = within(width, NARROWEST, WIDEST);
  // Letters are drawn SMALL pixels high: the sheet has as many pixels across as make them so many points.
  const across = own ?? Math.round(((wide / INCH) * 72 * SMALL) / within(letters, SMALLEST, LARGEST));
  const points = ((wide / INCH) * 72 * SMALL) / across;
  const style = { tallest: Math.min((HIGHEST / wide) * across, 1.3 * across), marginals, ...titles };
  const save = async (kind: Kind) => {
    tell("");
    try {
      const file = await written(kind, sheet.current!, wide, page.title);
      download(file, `${fileName(page.title, picture.name)}-${wide}mm.${kind}`);
    } catch (error) {
      tell(worded(error));
    }
  };
  return (
    <dialog
      class="sheet-dialog"
      ref={dialog}
      onClose={close}
      aria-label="a sheet for papers"
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <form method="dialog" onSubmit={(event) => event.preventDefault()}>
        <Size label="width, mm" value={width} set={setWidth} from={NARROWEST} to={WIDEST} />
        {picture.titles ? (
          <>
            <Size label="letters, pt" value={letters} set={setLetters} from={SMALLEST} to={LARGEST} />
            <Title label="title across" value={titles.columns} set={(columns) => setTitles({ ...titles, columns })} />
            <Title label="title down" value={titles.rows} set={(rows) => setTitles({ ...titles, rows })} />
            <Switch label="marginals" on={marginals} set={show} />
          </>
        ) : (
          <span class="hint">{`letters come out ${points.toFixed(1)} points high`}</span>
        )}
      </form>
      <div class="sheet-window" tabIndex={0} role="region" aria-label="the sheet">
        <Palette.Provider value={colours}>
          <OnSheet.Provider value={style}>
            <Pictures.Provider value={NONE}>
              <Voice.Provider value={silent}>
                <div
                  ref={sheet}
                  class="sheet picture"
                  inert
                  style={{
                    width: `${across}px`,
                    "--paper": colours.paper,
                    "--ink": colours.ink,
                    "--quiet": colours.quiet,
                    "--line": colours.line,
                    "--accent": colours.accent,
                    "--changed": colours.changed,
                    colorScheme: "light",
                  }}
                >
                  {content}
                </div>
              </Voice.Provider>
            </Pictures.Provider>
          </OnSheet.Provider>
        </Palette.Provider>
      </div>
      <div class="sheet-saves">
        {KINDS.map((kind) => (
          <button key={kind} class="small" onClick={() => void save(kind)}>
            save {kind.toUpperCase()}
          </button>
        ))}
        <span class="hint" role="status">
          {told || `PDF holds letters as shapes, so no font is missing; PNG has ${PIXELS} pixels an inch.`}
        </span>
        <button class="quiet" onClick={() => dialog.current?.close()}>
          close
        </button>
      </div>
    </dialog>
  );
}

const NONE = new Set<Picture>();
const silent = () => undefined;

function within(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, Number.isFinite(value) ? value : low));
}

interface SizeProps {
  label: string;
  value: number;
  set(value: number): void;
  from: number;
  to: number;
}

function Size({ label, value, set, from, to }: SizeProps) {
  return (
    <label>
      <span>{label}</span>
      <input
        type="number"
        min={from}
        max={to}
        step="any"
        value={Number.isFinite(value) ? value : ""}
        onInput={(event) => set(event.currentTarget.valueAsNumber)}
        onBlur={() => set(within(value, from, to))}
      />
    </label>
  );
}

function Title({ label, value, set }: { label: string; value: string; set(value: string): void }) {
  return (
    <label>
      <span>{label}</span>
      <input type="text" dir="auto" value={value} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
}

// What leaves ----------------------------------------------------------------------------------------------------------

async function written(kind: Kind, element: HTMLElement, millimetres: number, title: string): Promise<Blob> {
  const { svg, height } = sheetOf(element, millimetres);
  if (kind === "svg") return new Blob([svg], { type: "image/svg+xml" });
  if (kind === "png") {
    const png = await pngOf(svg, Math.round((millimetres / INCH) * PIXELS), "#ffffff");
    return new Blob([withDensity(new Uint8Array(await png.arrayBuffer()), PIXELS) as BlobPart], { type: "image/png" });
  }
  const root = shapeOf(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement);
  const bytes = await pdfOf(root, { width: millimetres, height, title }, { ...letterer(), pixels: pixelsOf });
  return new Blob([bytes as BlobPart], { type: "application/pdf" });
}

function shapeOf(element: Element): Shape {
  return {
    name: element.localName,
    attributes: Object.fromEntries([...element.attributes].map(({ name, value }) => [name, value])),
    children: [...element.children].map(shapeOf),
    text: element.localName === "text" ? (element.textContent ?? "") : "",
  };
}

async function pixelsOf(address: string): Promise<Pixels> {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  const [width, height] = [(canvas.width = image.naturalWidth), (canvas.height = image.naturalHeight)];
  const ctx = canvas.getContext("2d");
  ctx?.drawImage(image, 0, 0);
  const data = ctx?.getImageData(0, 0, width, height).data ?? new Uint8ClampedArray(4 * width * height);
  const colours = Uint8Array.from({ length: 3 * width * height }, (_, i) => data[4 * Math.floor(i / 3) + (i % 3)]!);
  const opaque = Uint8Array.from({ length: width * height }, (_, i) => data[4 * i + 3]!);
  return { width, height, colours, opaque: opaque.every((share) => share === 255) ? null : opaque };
}
