// Where the nodes of a beam's tree stand. A step is a column; the chosen path is one straight line, and each branch
// hangs below the node it left, as high as there is room.
import type { PageAxis, PageTree } from "../types";

export interface Layout {
  /** the row of each node; the chosen path is in row 0 */
  row: Int32Array;
  rows: number;
  /** steps: the columns */
  columns: number;
  /** the children of each node, the one that goes on in its row first; those of the start are at `parent.length` */
  children: number[][];
}

/** A node's children in the order they are drawn: the chosen one, then the likelier. */
function familyOf(tree: PageTree): number[][] {
  const count = tree.labels.length;
  const children: number[][] = Array.from({ length: count + 1 }, () => []);
  tree.parent.forEach((parent, node) => {
    // A node may only hang on one before it: a damaged tree must not become a circle.
    children[parent >= 0 && parent < node ? parent : count]!.push(node);
  });
  const rank = (node: number) => tree.log_prob[node] ?? -Infinity;
  for (const each of children)
    each.sort(
      (one, other) => Number(tree.chosen[other]) - Number(tree.chosen[one]) || rank(other) - rank(one) || one - other,
    );
  return children;
}

/** A line of nodes in one row: from the node it hangs on, one a column, to its end. */
interface Branch {
  nodes: number[];
  /** the column of its first node */
  from: number;
  /** the row of the node it hangs on */
  above: number;
}

/** What is taken: places by nodes, and between columns by lines that go on and lines that go down. */
class Taken {
  private readonly seen = new Set<string>();

  private has(kind: "at" | "on" | "down", column: number, row: number): boolean {
    return this.seen.has(`${kind} ${column} ${row}`);
  }

  /** Whether a branch fits into a row; `strictly`: and no line crosses another. */
  fits({ nodes, from, above }: Branch, row: number, strictly: boolean): boolean {
    for (let column = from; column < from + nodes.length; column++) {
      if (this.has("at", column, row)) return false;
      if (strictly && column > from && this.has("down", column, row)) return false;
    }
    for (let between = above + 1; strictly && between < row; between++) if (this.has("on", from, between)) return false;
    return true;
  }

  put({ nodes, from, above }: Branch, row: number): void {
    nodes.forEach((_, i) => {
      this.seen.add(`at ${from + i} ${row}`);
      if (i) this.seen.add(`on ${from + i} ${row}`);
    });
    for (let between = above + 1; between < row; between++) this.seen.add(`down ${from} ${between}`);
  }
}

/** Rows of all nodes. What leaves the path last is placed first, so that earlier branches need not cross it. */
export function layoutOf(tree: PageTree): Layout {
  const count = tree.labels.length;
  const children = familyOf(tree);
  const row = new Int32Array(count);
  const depth = depthsOf(tree, children);
  const columns = depth.reduce((most, each) => Math.max(most, each + 1), 0);
  const taken = new Taken();
  // Branches that wait for their place, by the column they begin in.
  const waiting: Branch[][] = Array.from({ length: columns + 1 }, () => []);
  const settle = (branch: Branch, at: number) => {
    taken.put(branch, at);
    for (const node of branch.nodes) if (node < count) row[node] = at;
    for (const node of branch.nodes)
      for (const child of children[node]!.slice(1).reverse()) {
        const nodes = lineFrom(child, children);
        waiting[depth[child]!]!.push({ nodes, from: depth[child]!, above: at });
      }
  };
  settle({ nodes: lineFrom(count, children), from: -1, above: -1 }, 0);
  for (let column = columns; column >= 0;) {
    const branch = waiting[column]!.pop();
    if (!branch) {
      column--;
      continue;
    }
    settle(branch, roomFor(branch, taken, count));
    column = columns;
  }
  return { row, rows: row.reduce((most, each) => Math.max(most, each), 0) + 1, columns, children };
}

function roomFor(branch: Branch, taken: Taken, most: number): number {
  for (const strictly of [true, false])
    for (let row = branch.above + 1; row <= branch.above + most; row++)
      if (taken.fits(branch, row, strictly)) return row;
  return branch.above + most + 1;
}

export function parentOf(tree: PageTree, node: number): number {
  const parent = tree.parent[node] ?? -1;
  return parent >= 0 && parent < node ? parent : -1;
}

/** Steps counted along the tree: what a trace says of them need not begin at 0. */
export function depthsOf(tree: PageTree, children: number[][]): Int32Array {
  const depth = new Int32Array(children.length - 1);
  for (let node = 0; node < depth.length; node++) {
    const parent = parentOf(tree, node);
    depth[node] = parent < 0 ? 0 : depth[parent]! + 1;
  }
  return depth;
}

/** The node, its first child, that one's first child, … */
function lineFrom(start: number, children: number[][]): number[] {
  const line = [start];
  for (let node = children[start]![0]; node !== undefined; node = children[node]![0]) line.push(node);
  return line;
}

/** The nodes from the start to this one. */
export function pathTo(tree: PageTree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = parentOf(tree, at)) path.push(at);
  return path.reverse();
}

/** The log-probability of a node's own token, after those before it. */
export function ownLogProb(tree: PageTree, node: number): number {
  const parent = parentOf(tree, node);
  return (tree.log_prob[node] ?? NaN) - (parent < 0 ? 0 : (tree.log_prob[parent] ?? NaN));
}

const MARKER = /^<[^ <>]+>$/;

/** Tokens as the text they make: put together as the axis they were chosen for puts its own together. */
export function textOf(labels: string[], axis: PageAxis | undefined): string {
  const words = labels.filter((label) => !MARKER.test(label));
  const own = (axis?.labels ?? []).filter((label) => !MARKER.test(label));
  const text = axis?.text?.trim();
  if (text !== undefined && own.length > 1 && own.join("").trim() === text) return words.join("");
  if (words.some((word) => /▁|Ġ|^##|@@$|<\/w>$/.test(word))) return pieced(words);
  // Characters stand together, and so do pieces that bring their own spaces; words and numbers do not.
  const together = own.length > 1 && own.every((label) => [...label].length <= 1 || /^\s|\s$/.test(label));
  return words.join(together ? "" : " ");
}

/** Pieces of words, by the marks of the common tokenizers. */
function pieced(words: string[]): string {
  if (words.some((word) => word.startsWith("##"))) return words.join(" ").replace(/ ##/g, "");
  if (words.some((word) => word.endsWith("@@"))) return words.join(" ").replace(/@@( |$)/g, "");
  return words
    .join("")
    .replace(/[▁Ġ]|<\/w>/g, " ")
    .trim();
}

/** Where an arrow key leads: to the parent, the first child, the next node of the same step above or below. */
export function neighbour(tree: PageTree, layout: Layout, node: number, key: string): number {
  if (key === "ArrowLeft") return Math.max(parentOf(tree, node), -1) < 0 ? node : parentOf(tree, node);
  if (key === "ArrowRight") return layout.children[node]?.[0] ?? node;
  const by = key === "ArrowDown" ? 1 : -1;
  const depth = depthsOf(tree, layout.children);
  const here = layout.row[node]!;
  let found = node;
  for (let other = 0; other < depth.length; other++) {
    const away = (layout.row[other]! - here) * by;
    if (depth[other] === depth[node] && away > 0 && (found === node || away < (layout.row[found]! - here) * by))
      found = other;
  }
  return found;
}
