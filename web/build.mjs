// Bundles the explorer into scripts with a style sheet each, which the Python package carries as data: explorer.js, which
// every page holds, and one for each of src/chunks, views that few pages need. A chunk brings no second copy of what
// explorer.js has: the modules that both use are handed over by name.
import { build } from "esbuild";
import { mkdir, readdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

const LIMIT = 150_000; // bytes, script and style of explorer together: every saved page holds both
const here = path.dirname(fileURLToPath(import.meta.url));
const sources = path.join(here, "src");
const assets = process.env.SACCADE_ASSETS ?? path.join(here, "..", "src", "saccade", "views", "assets");
const SHARED = "globalThis.saccadeShared";
const settings = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  jsx: "transform",
  jsxFactory: "jsxElement",
  jsxFragment: "jsxFragment",
  // esbuild would read "react-jsx" from tsconfig.json, which is for the types alone.
  tsconfigRaw: { compilerOptions: { jsx: "react", jsxFactory: "jsxElement", jsxFragmentFactory: "jsxFragment" } },
  inject: [path.join(sources, "jsx.ts")],
  legalComments: "none",
  logLevel: "warning",
};

/** The modules that explorer.js is made of. */
async function modules() {
  const entryPoints = [path.join(sources, "index.tsx")];
  const { metafile } = await build({ ...settings, entryPoints, write: false, outdir: assets, metafile: true });
  return new Set(Object.keys(metafile.inputs).filter((name) => !name.endsWith(".css")));
}

/** Modules of `given` are not bundled again but taken from what explorer.js hands over; `taken` learns which were asked for. */
function handedOver(given, taken) {
  return {
    name: "handed-over",
    setup(run) {
      run.onResolve({ filter: /.*/ }, async (asked) => {
        if (asked.kind === "entry-point" || asked.pluginData === "asked") return undefined;
        const { kind, importer, resolveDir } = asked;
        const found = await run.resolve(asked.path, { kind, importer, resolveDir, pluginData: "asked" });
        const name = path.relative(here, found.path);
        if (!given.has(name)) return undefined;
        taken.add(name);
        return { path: name, namespace: "handed-over" };
      });
      run.onLoad({ filter: /.*/, namespace: "handed-over" }, ({ path: name }) => ({
        contents: `module.exports = ${SHARED}[${JSON.stringify(name)}];`,
      }));
    },
  };
}

await mkdir(assets, { recursive: true });
const [given, taken] = [await modules(), new Set()];
const chunks = (await readdir(path.join(sources, "chunks"))).map((name) => path.parse(name).name).sort();
const entryPoints = chunks.map((name) => path.join(sources, "chunks", `${name}.ts`));
await build({ ...settings, entryPoints, outdir: assets, plugins: [handedOver(given, taken)] });
const names = [...taken].sort();
const contents = [
  ...names.map((name, number) => `import * as shared${number} from ${JSON.stringify(`./${name}`)};`),
  `${SHARED} = { ${names.map((name, number) => `${JSON.stringify(name)}: shared${number}`).join(", ")} };`,
  'import "./src/index.tsx";',
].join("\n");
const stdin = { contents, resolveDir: here, sourcefile: "explorer.js" };
await build({ ...settings, stdin, outfile: path.join(assets, "explorer.js") });

async function sizeOf(name) {
  const files = [`${name}.js`, `${name}.css`].map((file) => stat(path.join(assets, file)));
  return (await Promise.all(files)).reduce((sum, { size }) => sum + size, 0);
}

for (const name of ["explorer", ...chunks]) console.log(`${name}  ${((await sizeOf(name)) / 1000).toFixed(1)} KB`);
const size = await sizeOf("explorer");
if (size > LIMIT) {
  console.error(`the explorer is too large: ${size} bytes, script and style together, at most ${LIMIT}`);
  process.exit(1);
}
