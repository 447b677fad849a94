// Where the tour points, and where its card then has room.
import { useLayoutEffect, useState } from "preact/hooks";
import { useStill } from "./theme";

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Where on the screen those things lie that a stop points at, all in one box; they are brought into sight first. */
export function useRing(selector: string, step: number): Box | null {
  const [box, measure] = useState<Box | null>(null);
  const still = useStill();
  useLayoutEffect(() => {
    const look = () => measure(around(selector));
    const bring = () => {
      const found = around(selector);
      const by =
        found &&
        (isNarrow()
          ? found.top - TOP
          : found.top < 0 || found.top > innerHeight - 160
            ? found.top - innerHeight / 3
            : 0);
      if (by) scrollBy({ top: by, behavior: still ? "auto" : "smooth" });
      look();
    };
    bring();
    const later = setTimeout(bring, 300); // the view may only now be coming up
    addEventListener("scroll", look, true);
    addEventListener("resize", look);
    return () => {
      clearTimeout(later);
      removeEventListener("scroll", look, true);
      removeEventListener("resize", look);
    };
  }, [selector, step]);
  return box;
}

const TOP = 24; // pixels above what is pointed at on a narrow screen, whose lower part the card takes

export function isNarrow(): boolean {
  return innerWidth <= 720;
}

function around(selector: string): Box | null {
  const boxes = [...document.querySelectorAll(selector)]
    .map((each) => each.getBoundingClientRect())
    .filter((box) => box.width && box.height);
  if (!boxes.length) return null;
  const left = Math.min(...boxes.map((box) => box.left));
  const top = Math.min(...boxes.map((box) => box.top));
  const right = Math.max(...boxes.map((box) => box.right));
  return { left, top, width: right - left, height: Math.max(...boxes.map((box) => box.bottom)) - top };
}

const [GAP, WIDE] = [18, 340];

/** Beside the ring, where there is room; on a narrow screen at the edge that the ring leaves free. */
export function usePlace(
  ring: Box | null,
  card: { current: HTMLDivElement | null },
  stop: number,
): Record<string, string> {
  const [tall, measure] = useState(180);
  useLayoutEffect(() => measure(card.current?.offsetHeight ?? 180), [stop, ring?.width]);
  if (!ring || isNarrow()) {
    const edge = ring && ring.top > innerHeight / 2 ? "top" : "bottom";
    return { left: "12px", right: "12px", [edge]: "12px" };
  }
  const top = Math.max(
    8,
    Math.min(innerHeight - tall - 8, ring.top + Math.max(0, Math.min(80, ring.height / 2 - tall / 2))),
  );
  const right = ring.left + ring.width + GAP;
  if (right + WIDE < innerWidth) return { left: `${right}px`, top: `${top}px`, width: `${WIDE}px` };
  if (ring.left - GAP - WIDE > 0) return { left: `${ring.left - GAP - WIDE}px`, top: `${top}px`, width: `${WIDE}px` };
  return {
    left: `${Math.max(8, (innerWidth - WIDE) / 2)}px`,
    top: `${Math.max(8, ring.top - tall - GAP)}px`,
    width: `${WIDE}px`,
  };
}
