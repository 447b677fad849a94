// What was asked of the model, as the address keeps it: the input, the edits of the attention, the beginning; of the trace
// at place 2 as input.2, edits.2, prefix.2.
import type { EditJson, State } from "./types";
import type { Asked, Change } from "./what_if";

function names(place: number): { input: string; edits: string; prefix: string } {
  const end = place ? `.${place}` : "";
  return { input: `input${end}`, edits: `edits${end}`, prefix: `prefix${end}` };
}

/** As settings of the page; undefined: the page's own. */
export function recorded(place: number, { input, changes, prefix }: Asked): State["more"] {
  const name = names(place);
  const edits = changes.map(({ edit, key }) => ({ ...edit, key }));
  return {
    [name.input]: input ?? undefined,
    [name.edits]: edits.length ? JSON.stringify(edits) : undefined,
    [name.prefix]: prefix ?? undefined,
  };
}

/** What an address asks; edits that cannot be read are none. */
export function askedIn({ more }: State, place: number): Asked {
  const name = names(place);
  const text = (part: string) => (more[part] === undefined ? null : String(more[part]));
  return { input: text(name.input), changes: changesIn(text(name.edits)), prefix: text(name.prefix) };
}

function changesIn(text: string | null): Change[] {
  try {
    const edits: unknown = text === null ? [] : JSON.parse(text);
    return Array.isArray(edits) ? edits.flatMap(changeOf) : [];
  } catch {
    return [];
  }
}

const KINDS: Partial<Record<string, Change["kind"]>> = { set: "drag", mask: "mask", even: "even" };

function changeOf(given: Partial<EditJson> & { key?: unknown }): Change[] {
  const { edit, site = null, head = null, step = null, keys, row, key } = given ?? {};
  const kind = KINDS[String(edit)];
  const [place, numbers] = [isPlace(head) && isPlace(step), kind === "mask" ? keys : kind === "drag" ? row : []];
  if (!kind || !place || !(site === null || typeof site === "string")) return [];
  if (!Array.isArray(numbers) || !numbers.every(Number.isFinite)) return [];
  const one: EditJson = { edit: edit!, site, head, step };
  if (kind === "mask") one.keys = numbers;
  if (kind === "drag") one.row = numbers;
  return [{ kind, edit: one, key: typeof key === "number" && Number.isInteger(key) ? key : null }];
}

function isPlace(value: unknown): value is number | null {
  return value === null || (Number.isInteger(value) && (value as number) >= 0);
}
