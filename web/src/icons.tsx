// Signs that not every system's typeface has, drawn.
const PATHS = {
  first: "M3 3v10M13 3L5.5 8l7.5 5z",
  back: "M11.5 3L4 8l7.5 5z",
  play: "M4.5 2.5L13 8l-8.5 5.5z",
  pause: "M5 3v10M11 3v10",
  next: "M4.5 3L12 8l-7.5 5z",
  last: "M13 3v10M3 3l7.5 5L3 13z",
};

export function Icon({ name }: { name: keyof typeof PATHS }) {
  const filled = name !== "pause";
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path
        d={PATHS[name]}
        fill={filled && name !== "next" && name !== "back" ? "currentColor" : "none"}
        stroke="currentColor"
        stroke-width={name === "pause" ? 3 : 1.6}
        stroke-linejoin="round"
      />
    </svg>
  );
}
