// Two outputs beside each other: what is the same stands together, what is not stands against what came in its place.

/** Numbers of tokens that belong together; −1: the other has nothing there. */
export type Pairing = [number, number];

const MOST = 4_000_000; // cells of the table: beyond, tokens are paired by their place

/** The longest common run of tokens, and between its parts what stands instead of what. */
export function aligned(one: readonly string[], other: readonly string[]): Pairing[] {
  let from = 0;
  while (from < one.length && from < other.length && one[from] === other[from]) from++;
  let behind = 0;
  const shorter = Math.min(one.length, other.length) - from;
  while (behind < shorter && one[one.length - 1 - behind] === other[other.length - 1 - behind]) behind++;
  const pairs: Pairing[] = Array.from({ length: from }, (_, i) => [i, i]);
  pairs.push(
    ...middle(one.slice(from, one.length - behind), other.slice(from, other.length - behind)).map(([a, b]): Pairing => [
      a < 0 ? a : a + from,
      b < 0 ? b : b + from,
    ]),
  );
  for (let i = behind; i > 0; i--) pairs.push([one.length - i, other.length - i]);
  return pairs;
}

function middle(one: readonly string[], other: readonly string[]): Pairing[] {
  const same = one.length * other.length <= MOST ? common(one, other) : [];
  const pairs: Pairing[] = [];
  let [a, b] = [0, 0];
  for (const [nextA, nextB] of [...same, [one.length, other.length] as Pairing]) {
    while (a < nextA || b < nextB) pairs.push([a < nextA ? a++ : -1, b < nextB ? b++ : -1]);
    if (nextA < one.length) pairs.push([a++, b++]);
  }
  return pairs;
}

function common(one: readonly string[], other: readonly string[]): Pairing[] {
  const wide = other.length + 1;
  const longest = new Uint16Array((one.length + 1) * wide);
  for (let a = one.length - 1; a >= 0; a--)
    for (let b = other.length - 1; b >= 0; b--)
      longest[a * wide + b] =
        one[a] === other[b]
          ? longest[(a + 1) * wide + b + 1]! + 1
          : Math.max(longest[(a + 1) * wide + b]!, longest[a * wide + b + 1]!);
  const pairs: Pairing[] = [];
  for (let [a, b] = [0, 0]; a < one.length && b < other.length;) {
    if (one[a] === other[b]) pairs.push([a++, b++]);
    else if (longest[(a + 1) * wide + b]! >= longest[a * wide + b + 1]!) a++;
    else b++;
  }
  return pairs;
}
