// Small controls and states that every view shares.
import { hasSpecial, hasWords } from "./labels";
import type { PageAxis, ViewProps } from "./types";

/** What stands in a picture's place until it is there, or when it cannot be. */
export function Waiting({ error }: { error: string | null }) {
  return error ? (
    <p class="problem" role="alert">
      {error}
    </p>
  ) : (
    <p class="empty" aria-busy="true">
      Reading the numbers …
    </p>
  );
}

/** Switches for markers and words, where the axes have any. */
export function Showing({ axes, state, set }: { axes: PageAxis[] } & Pick<ViewProps, "state" | "set">) {
  return (
    <>
      {axes.some(hasSpecial) && (
        <Switch label="special tokens" on={state.special} set={(special) => set({ special })} />
      )}
      {axes.some(hasWords) && <Switch label="whole words" on={state.words} set={(words) => set({ words })} />}
    </>
  );
}

export function Switch({
  label,
  on,
  set,
  disabled = false,
  title,
}: {
  label: string;
  on: boolean;
  set(on: boolean): void;
  disabled?: boolean;
  title?: string;
}) {
  return (
    <label class="switch" title={title}>
      <input type="checkbox" checked={on} disabled={disabled} onChange={(event) => set(event.currentTarget.checked)} />
      {label}
    </label>
  );
}

export interface Choice {
  value: string;
  label: string;
}

export function Picker({
  label,
  value,
  choices,
  pick,
}: {
  label: string;
  value: string;
  choices: Choice[];
  pick(value: string): void;
}) {
  return (
    <label class="picker">
      <span>{label}</span>
      <select value={value} onChange={(event) => pick(event.currentTarget.value)}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Which site and which head, each only where there is a choice. */
export function Places({
  sites,
  site,
  heads,
  head,
  set,
}: {
  sites: string[];
  site: string | null;
  heads: (number | null)[];
  head: number | null;
  set: ViewProps["set"];
}) {
  return (
    <>
      {sites.length > 1 && (
        <Picker
          label="where"
          value={site ?? ""}
          choices={sites.map((value) => ({ value, label: value }))}
          pick={(chosen) => set({ site: chosen, head: null, key: null })}
        />
      )}
      {heads.length > 1 && (
        <Picker
          label="head"
          value={head === null ? "" : String(head)}
          choices={[
            { value: "", label: `mean of ${heads.length}` },
            ...heads.map((each) => ({ value: String(each), label: String(each ?? 0) })),
          ]}
          pick={(chosen) => set({ head: chosen === "" ? null : Number(chosen) })}
        />
      )}
    </>
  );
}
