// The neighbourhood of a node: who is near, and where each is drawn around it.
import type { Matrix } from "../types";

export interface Neighbour {
  node: number;
  weight: number;
}

/** Whom a node looks at (its row), or who looks at it (its column); the strongest first, what is no number last. */
export function neighboursOf(weights: Matrix, node: number, step: number, incoming: boolean): Neighbour[] {
  const found: Neighbour[] = [];
  const add = (other: number, weight: number) => weight !== 0 && found.push({ node: other, weight });
  if (!incoming) {
    const row = node - step;
    if (row >= 0 && row < weights.rows) weights.entries(row, add);
  } else {
    for (let row = 0; row < weights.rows; row++)
      weights.entries(row, (key, weight) => key === node && add(step + row, weight));
  }
  const size = (weight: number) => (Number.isNaN(weight) ? -Infinity : weight);
  return found.sort((one, other) => size(other.weight) - size(one.weight));
}

export interface Around extends Neighbour {
  angle: number;
  x: number;
  y: number;
}

/** Neighbours on a ring: in the directions in which they lie where places are known, else the strongest at the top. */
export function around(
  neighbours: Neighbour[],
  node: number,
  places: ArrayLike<number> | null,
  radius: { x: number; y: number },
): Around[] {
  const direction = ({ node: other }: Neighbour) =>
    places ? Math.atan2(places[2 * other + 1]! - places[2 * node + 1]!, places[2 * other]! - places[2 * node]!) : NaN;
  const known = places !== null && neighbours.every((each) => Number.isFinite(direction(each)));
  const sorted = known ? [...neighbours].sort((one, other) => direction(one) - direction(other)) : neighbours;
  const turn = (2 * Math.PI) / Math.max(1, sorted.length);
  // The ring is turned so that the even places come as near to the true directions as they can.
  const start = known ? meanAngle(sorted.map((each, i) => direction(each) - i * turn)) : -Math.PI / 2;
  return sorted.map((each, i) => {
    const angle = start + i * turn;
    return { ...each, angle, x: Math.cos(angle) * radius.x, y: Math.sin(angle) * radius.y };
  });
}

function meanAngle(angles: number[]): number {
  return Math.atan2(
    angles.reduce((sum, angle) => sum + Math.sin(angle), 0),
    angles.reduce((sum, angle) => sum + Math.cos(angle), 0),
  );
}

/** Places scaled into a box of this width, their proportions kept; null where they are not all numbers. */
export function fitted(
  places: ArrayLike<number>,
  count: number,
  width: number,
  margin: number,
): { xy: Float32Array; height: number } | null {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < count; i++) {
    const [x, y] = [places[2 * i]!, places[2 * i + 1]!];
    if (!Number.isFinite(x) || !Number.isFinite(y)) return null;
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  const scale = (width - 2 * margin) / Math.max(right - left, (bottom - top) / 1.4, 1e-9);
  const inset = (width - (right - left) * scale) / 2;
  const xy = Float32Array.from({ length: 2 * count }, (_, i) =>
    i % 2 ? (places[i]! - top) * scale + margin : (places[i]! - left) * scale + inset,
  );
  return { xy, height: Math.max(0, (bottom - top) * scale) + 2 * margin };
}
