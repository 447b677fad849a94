// The frame of a picture: its caption, its twin as a table, and the way out as PNG or SVG.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { download, fileName, pngOf, svgOf } from "./exporting";
import { useColours } from "./theme";
import { short } from "./labels";

/** The same numbers as a table. Rows and columns are asked for as they are shown: a table may be huge. */
export interface Table {
  /** what the rows are: the first column's heading */
  corner: string;
  columns: string[];
  rows: number;
  rowLabel(row: number): string;
  cell(row: number, column: number): string;
}

/** A picture that can leave the page. Figures enter theirs here, and the header's buttons take the first. */
export interface Picture {
  name: string;
  /** saves it as it looks now */
  save(kind: "png" | "svg"): Promise<void>;
  /** what is drawn, to be drawn again on a sheet */
  content(): ComponentChildren;
  /** what the sides of its matrix are called */
  titles?: Titles;
  /** pixels across; null: it can have any width, and its letters keep their size */
  width(): number | null;
}
export type Titles = { rows: string; columns: string };
export const Pictures = createContext<Set<Picture>>(new Set());
/** the page's title: the beginning of file names */
export const Title = createContext("saccade");

interface FigureProps {
  /** one word for file names: "alignment" */
  name: string;
  /** what one sees, in a sentence */
  caption?: ComponentChildren;
  table?: Table | null;
  /** controls that belong to this picture, above it at the right */
  controls?: ComponentChildren;
  /** of a matrix that can have any width: what its sides are called */
  titles?: Titles;
  children: ComponentChildren;
}

export function Figure({ name, caption, table, controls, titles, children }: FigureProps) {
  const picture = useRef<HTMLDivElement>(null);
  const pictures = useContext(Pictures);
  const title = useContext(Title);
  const { paper } = useColours();
  const [asTable, show] = useState(false);
  useEffect(markUsable, []);
  const drawn = useRef(children);
  drawn.current = children;
  useEffect(() => {
    const save: Picture["save"] = async (kind) => {
      if (!picture.current) return;
      const svg = svgOf(picture.current, paper);
      const content = kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await pngOf(svg);
      download(content, `${fileName(title, name)}.${kind}`);
    };
    const width = () => (titles ? null : (picture.current?.clientWidth ?? 0));
    const entered: Picture = { name, save, content: () => drawn.current, titles, width };
    pictures.add(entered);
    return () => void pictures.delete(entered);
  }, [pictures, title, name, paper, titles?.rows, titles?.columns]);
  return (
    <figure class="figure">
      <div class="figure-bar">
        {controls}
        {table && (
          <button class="quiet" aria-pressed={asTable} onClick={() => show(!asTable)}>
            table
          </button>
        )}
      </div>
      <div class="picture" ref={picture}>
        {asTable && table ? <TableTwin table={table} /> : children}
      </div>
      {caption && <figcaption>{caption}</figcaption>}
    </figure>
  );
}

/** The time from which there was something to see: what is drawn is drawn before effects run. */
function markUsable(): void {
  if (!performance.getEntriesByName("saccade:usable").length) performance.mark("saccade:usable");
}

const ROWS = 100;
const COLUMNS = 50;

function TableTwin({ table }: { table: Table }) {
  const [row, toRow] = useState(0);
  const [column, toColumn] = useState(0);
  const first = Math.min(row, Math.max(0, table.rows - 1));
  const rows = span(first, Math.min(table.rows, first + ROWS));
  const left = Math.min(column, Math.max(0, table.columns.length - 1));
  const columns = span(left, Math.min(table.columns.length, left + COLUMNS));
  return (
    <div class="twin">
      <Pager what="rows" from={first} page={ROWS} all={table.rows} go={toRow} />
      <Pager what="columns" from={left} page={COLUMNS} all={table.columns.length} go={toColumn} />
      <div class="scroll" tabIndex={0} role="region" aria-label="table">
        <table>
          <thead>
            <tr>
              <th scope="col">{table.corner}</th>
              {columns.map((c) => (
                <th scope="col" key={c} dir="auto">
                  {short(table.columns[c]!, 24)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <tr key={r}>
                <th scope="row" dir="auto">
                  {short(table.rowLabel(r), 24)}
                </th>
                {columns.map((c) => (
                  <td key={c}>{table.cell(r, c)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function span(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}

function Pager({
  what,
  from,
  page,
  all,
  go,
}: {
  what: string;
  from: number;
  page: number;
  all: number;
  go(to: number): void;
}) {
  if (all <= page) return null;
  return (
    <p class="pager" data-export="no">
      <button
        class="quiet"
        disabled={from === 0}
        aria-label={`earlier ${what}`}
        onClick={() => go(Math.max(0, from - page))}
      >
        ◂
      </button>
      {`${what} ${from + 1}–${Math.min(all, from + page)} of ${all}`}
      <button class="quiet" disabled={from + page >= all} aria-label={`later ${what}`} onClick={() => go(from + page)}>
        ▸
      </button>
    </p>
  );
}
