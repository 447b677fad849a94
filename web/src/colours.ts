// The colours of weights. The scale comes with the page: zero is its own background, so nothing looks like nothing.
import { fromBase64 } from "./data";
import type { PageData } from "./types";

export interface Colours {
  dark: boolean;
  /** 256 × 3 bytes */
  scale: Uint8Array;
  /** the same for numbers below zero, in pictures that have some */
  below?: Uint8Array;
  /** a weight divided by the largest, as a CSS colour; NaN gives transparent (it is hatched, not coloured) */
  shade(strength: number): string;
  /** what reads on shade(strength): the page's ink or its paper */
  inkOn(strength: number): string;
  /** a signed number divided by the largest size: one hue above zero, another below, nothing at zero */
  signed(value: number): string;
  /** custom properties of the style sheet, resolved: canvases and exported pictures have no style sheet */
  paper: string;
  ink: string;
  quiet: string;
  line: string;
  accent: string;
  changed: string;
}

type Rgb = readonly [number, number, number];

const LIGHT = { ink: "#1a1d23", quiet: "#5d636e", line: "#dcdfe5", accent: "#b0480b", changed: "#a3138b" };
const DARK = { ink: "#e8eaf0", quiet: "#9aa1b1", line: "#2e3240", accent: "#ffb057", changed: "#ff86e0" };
const BELOW: Record<"light" | "dark", Rgb> = { light: [122, 78, 22], dark: [232, 178, 110] };
const ABOVE: Record<"light" | "dark", Rgb> = { light: [23, 78, 150], dark: [110, 178, 255] };

function grey(): Uint8Array {
  return Uint8Array.from({ length: 768 }, (_, i) => 255 - Math.floor(i / 3));
}

function bytes(text: string | undefined, dark: boolean): Uint8Array {
  try {
    const found = fromBase64(text ?? "");
    if (found.length === 768) return found;
  } catch {
    // A page without its scale is still readable in grey.
  }
  return dark ? grey().reverse() : grey();
}

function rgb([red, green, blue]: Rgb): string {
  return `rgb(${red},${green},${blue})`;
}

function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => Math.round(from[i]! + (to[i]! - from[i]!) * share)) as unknown as Rgb;
}

/** Relative luminance as the accessibility guidelines (WCAG 2) define it: 0 black, 1 white. */
function luminance(colour: Rgb): number {
  const [red, green, blue] = colour.map((part) =>
    part / 255 <= 0.04045 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

export function coloursOf(page: PageData, dark: boolean): Colours {
  const scale = bytes(dark ? page.scale?.dark : page.scale?.light, dark);
  const named = dark ? DARK : LIGHT;
  const theme = dark ? "dark" : "light";
  const colour = (strength: number): Rgb => {
    const i = 3 * Math.round(Math.min(1, Math.max(0, strength)) * 255);
    return [scale[i]!, scale[i + 1]!, scale[i + 2]!];
  };
  const ground = colour(0);
  return {
    ...named,
    paper: rgb(ground),
    dark,
    scale,
    shade: (strength) => (Number.isNaN(strength) ? "transparent" : rgb(colour(strength))),
    inkOn(strength) {
      // Whichever stands out at least 4.5 : 1; in between only black does.
      const light = luminance(colour(strength));
      return light > 0.23 ? LIGHT.ink : light > 0.179 ? "#000000" : "#ffffff";
    },
    signed(value) {
      if (!Number.isFinite(value)) return "transparent";
      const end = value < 0 ? BELOW[theme] : ABOVE[theme];
      return rgb(mixed(ground, end, Math.min(1, Math.abs(value))));
    },
  };
}
