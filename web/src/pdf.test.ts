import assert from "node:assert/strict";
import test from "node:test";
import { colourOf, pdfOf, type Shape, type Sources, stepsOf } from "./pdf";

function shape(name: string, attributes: Record<string, string | number> = {}, ...inside: (Shape | string)[]): Shape {
  return {
    name,
    attributes: Object.fromEntries(Object.entries(attributes).map(([key, value]) => [key, String(value)])),
    children: inside.filter((each): each is Shape => typeof each !== "string"),
    text: inside.filter((each) => typeof each === "string").join(""),
  };
}

const followed: string[] = [];
const sources: Sources = {
  letters(text) {
    followed.push(text);
    return text === " " ? [] : [[0, 0, 0.5, 0, 0.5, -0.7, 0, -0.7]];
  },
  advance: (text) => 0.5 * text.length,
  pixels: async () => ({
    width: 2,
    height: 1,
    colours: Uint8Array.of(255, 0, 0, 0, 0, 255),
    opaque: Uint8Array.of(255, 128),
  }),
};

async function unpacked(bytes: Uint8Array): Promise<string> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return latin(new Uint8Array(await new Response(stream).arrayBuffer()));
}

function latin(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** The file as text, its streams unpacked, and of those the one that draws the page. */
async function written(...children: Shape[]): Promise<{ text: string; page: string; streams: string[] }> {
  const root = shape("svg", { viewBox: "0 0 100 50" }, ...children);
  const bytes = await pdfOf(root, { width: 88, height: 44, title: "Título" }, sources);
  const text = latin(bytes);
  const content = /\/Contents (\d+) 0 R/.exec(text)![1];
  const found = [...text.matchAll(/(\d+) 0 obj\n[^\n]*\/Length (\d+) >>\nstream\n/g)];
  const streams = await Promise.all(
    found.map(({ 0: head, 2: length, index }) => {
      const at = index + head.length;
      return unpacked(bytes.subarray(at, at + Number(length)));
    }),
  );
  return { text, page: streams[found.findIndex(([, number]) => number === content)]!, streams };
}

test("every object stands where the table says, and the page has the size asked for", async () => {
  const { text } = await written(shape("rect", { width: 10, height: 10, fill: "#ff0000" }));
  const table = Number(/startxref\n(\d+)\n%%EOF\n$/.exec(text)![1]);
  assert.equal(text.slice(table, table + 4), "xref");
  const places = [...text.slice(table).matchAll(/(\d{10}) 00000 n /g)].map(([, place]) => Number(place));
  places.forEach((place, i) => assert.ok(text.startsWith(`${i + 1} 0 obj\n`, place), `object ${i + 1}`));
  const [width, height] = /MediaBox \[0 0 ([\d.]+) ([\d.]+)\]/.exec(text)!.slice(1).map(Number);
  assert.ok(Math.abs(width! - (88 / 25.4) * 72) < 1e-3 && Math.abs(height! - (44 / 25.4) * 72) < 1e-3);
  assert.ok(text.includes("/Title <feff005400ed00740075006c006f>"));
});

test("shapes are painted where SVG has them, upside down for PDF", async () => {
  const { page } = await written(
    shape("rect", { x: 1, y: 2, width: 3, height: 4, fill: "rgb(0, 128, 255)" }),
    shape("line", { x1: 0, y1: 1, x2: 5, y2: 1, stroke: "#000", "stroke-width": 2, "stroke-dasharray": "4 3" }),
    shape("rect", { width: 9, height: 9, fill: "none" }),
  );
  const lines = page.split("\n");
  assert.match(lines[0]!, /^2\.494 0 0 -2\.494 0 124\.724 cm$/);
  assert.ok(page.includes("0 0.502 1 rg\n1 2 3 4 re f"));
  assert.ok(page.includes("[4 3] 0 d"));
  assert.ok(page.endsWith("0 1 m\n5 1 l S"), "what is neither filled nor drawn around is not there");
});

test("a turned text keeps its angle", async () => {
  const { page } = await written(shape("text", { x: 10, y: 20, transform: "rotate(-45 10 20)", fill: "#111" }, "eos"));
  const [a, b, c, d, e, f] = /q\n([-\d. ]+) cm/.exec(page)![1]!.split(" ").map(Number) as number[];
  const turned = [a! * 10 + c! * 20 + e!, b! * 10 + d! * 20 + f!];
  assert.ok(Math.abs(turned[0]! - 10) < 0.01 && Math.abs(turned[1]! - 20) < 0.01, "its own point stays");
  assert.ok(Math.abs(a! - Math.SQRT1_2) < 1e-4 && Math.abs(b! + Math.SQRT1_2) < 1e-4);
});

test("letters are shapes: each once, joined scripts a word at a time, the anchor as in SVG", async () => {
  followed.length = 0;
  const { page, streams } = await written(
    shape("text", { x: 50, y: 10, dy: "0.35em", "font-size": 10, "text-anchor": "end", fill: "#000" }, "abab"),
    shape("text", { x: 0, y: 30, "font-size": 10, fill: "#000" }, "سلام"),
    shape("text", { x: 90, y: 40, "font-size": 10, direction: "rtl", fill: "#000" }, "لا"),
  );
  assert.deepEqual(new Set(followed), new Set(["a", "b", "سلام", "لا"]));
  const forms = streams.filter((stream) => stream.endsWith("f*"));
  assert.equal(forms.length, 4);
  assert.equal(forms[0], "0 0 m 500 0 l 500 -700 l 0 -700 l h f*");
  // Four letters, half an em each, end at 50; the baseline is 0.35 em below the middle.
  assert.deepEqual(
    [...page.matchAll(/0\.01 0 0 0\.01 ([-\d.]+) ([-\d.]+) cm/g)].map(([, x, y]) => [Number(x), Number(y)]),
    [
      [30, 13.5],
      [35, 13.5],
      [40, 13.5],
      [45, 13.5],
      [0, 30],
      [80, 40],
    ],
  );
});

test("what is cut off, faint or made of pixels is so in the file", async () => {
  const { page, text } = await written(
    shape("clipPath", { id: "w" }, shape("rect", { x: 1, y: 1, width: 8, height: 8 })),
    shape("g", { "clip-path": "url(#w)", opacity: 0.5 }, shape("circle", { cx: 5, cy: 5, r: 2, fill: "#00f" })),
    shape("image", { x: 20, y: 5, width: 4, height: 2, href: "data:image/png;base64,AA" }),
    shape("svg", { x: 10, y: 0, width: 40, height: 10, viewBox: "0 0 20 10", preserveAspectRatio: "none" }),
  );
  assert.ok(page.includes("q\n1 1 8 8 re W n\nq /G0 gs\n0 0 1 rg"));
  assert.ok(text.includes("/ca 0.5 /CA 0.5"));
  assert.ok(page.includes("q 4 0 0 -2 20 7 cm /X1 Do Q"));
  assert.match(text, /\/Width 2 \/Height 1 .*\/SMask \d+ 0 R/);
  assert.ok(page.includes("2 0 0 1 10 0 cm"));
});

test("paths of every kind become moves, lines and curves", () => {
  assert.deepEqual(stepsOf("M1 2H5V7L0 0Z"), [["m", 1, 2], ["l", 5, 2], ["l", 5, 7], ["l", 0, 0], ["h"]]);
  assert.deepEqual(stepsOf("m1,2 3,4h0v-1"), [
    ["m", 1, 2],
    ["l", 4, 6],
    ["l", 4, 6],
    ["l", 4, 5],
  ]);
  assert.deepEqual(stepsOf("M0 0Q3 0 3 3"), [
    ["m", 0, 0],
    ["c", 2, 0, 3, 1, 3, 3],
  ]);
  assert.deepEqual(stepsOf("M0 0C1 1 2 2 3 3c1 0 1 0 1 1"), [
    ["m", 0, 0],
    ["c", 1, 1, 2, 2, 3, 3],
    ["c", 4, 3, 4, 3, 4, 4],
  ]);
});

test("colours as browsers write them", () => {
  assert.deepEqual(colourOf("#fff"), { parts: "1 1 1", opaque: 1 });
  assert.deepEqual(colourOf("rgba(255, 0, 0, 0.25)"), { parts: "1 0 0", opaque: 0.25 });
  assert.deepEqual(colourOf("color(srgb 0.5 0.25 1 / 0.5)"), { parts: "0.5 0.25 1", opaque: 0.5 });
  for (const none of ["none", "transparent", "rgba(0, 0, 0, 0)"]) assert.equal(colourOf(none), null);
});
