// How large a PNG is printed: its pixels an inch, which browsers do not write.

const HEAD = 33; // bytes: the signature and the first chunk, after which this one stands

/** The file with the number of its pixels an inch. */
export function withDensity(png: Uint8Array, inch: number): Uint8Array {
  const metre = Math.round(inch / 0.0254);
  const chunk = new DataView(new ArrayBuffer(21));
  chunk.setUint32(0, 9);
  [..."pHYs"].forEach((letter, i) => chunk.setUint8(4 + i, letter.charCodeAt(0)));
  chunk.setUint32(8, metre);
  chunk.setUint32(12, metre);
  chunk.setUint8(16, 1);
  chunk.setUint32(17, checksum(new Uint8Array(chunk.buffer, 4, 13)));
  const whole = new Uint8Array(png.length + 21);
  whole.set(png.subarray(0, HEAD));
  whole.set(new Uint8Array(chunk.buffer), HEAD);
  whole.set(png.subarray(HEAD), HEAD + 21);
  return whole;
}

/** CRC-32, as PNG has it. */
export function checksum(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let i = 0; i < 8; i++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}
