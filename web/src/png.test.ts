import assert from "node:assert/strict";
import test from "node:test";
import { checksum, withDensity } from "./png";

test("a chunk says how many pixels an inch has, right after the head", () => {
  const end = Uint8Array.of(0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82);
  const file = Uint8Array.of(...new Uint8Array(33).fill(7), ...end);
  const with600 = withDensity(file, 600);
  assert.deepEqual([...with600.subarray(0, 33)], new Array(33).fill(7));
  assert.deepEqual([...with600.subarray(-12)], [...end]);
  const chunk = new DataView(with600.buffer, 33, 21);
  assert.equal(String.fromCharCode(...with600.subarray(37, 41)), "pHYs");
  assert.equal(chunk.getUint32(8), 23622); // pixels a metre
  assert.equal(chunk.getUint32(17), checksum(with600.subarray(37, 50)));
});

test("the checksum is the one of PNG", () => {
  assert.equal(checksum(Uint8Array.from("IEND", (letter) => letter.charCodeAt(0))), 0xae426082);
});
