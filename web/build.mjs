// Bundles the explorer into one script and one style sheet, which the Python package carries as data.
import { build } from "esbuild";
import { mkdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

const LIMIT = 150_000; // bytes, script and style together: a saved page holds both
const here = path.dirname(fileURLToPath(import.meta.url));
const assets = process.env.SACCADE_ASSETS ?? path.join(here, "..", "src", "saccade", "views", "assets");

await mkdir(assets, { recursive: true });
await build({
  entryPoints: { explorer: path.join(here, "src", "index.tsx") },
  outdir: assets,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  jsx: "transform",
  jsxFactory: "jsxElement",
  jsxFragment: "jsxFragment",
  inject: [path.join(here, "src", "jsx.ts")],
  // esbuild would read "react-jsx" from tsconfig.json, which is for the types alone.
  tsconfigRaw: { compilerOptions: { jsx: "react", jsxFactory: "jsxElement", jsxFragmentFactory: "jsxFragment" } },
  legalComments: "none",
  logLevel: "warning",
});

let total = 0;
for (const name of ["explorer.js", "explorer.css"]) {
  const { size } = await stat(path.join(assets, name));
  total += size;
  console.log(`${name}  ${(size / 1000).toFixed(1)} KB`);
}
if (total > LIMIT) {
  console.error(`the explorer is too large: ${total} bytes together, at most ${LIMIT}`);
  process.exit(1);
}
