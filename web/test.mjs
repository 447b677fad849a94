// Runs src/**/*.test.ts with Node's own test runner: bundled by esbuild first, since Node reads no TypeScript of ours.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const tests = readdirSync(path.join(here, "src"), { recursive: true }).filter((name) =>
  String(name).endsWith(".test.ts"),
);
const out = mkdtempSync(path.join(tmpdir(), "explorer-tests-"));
try {
  await build({
    entryPoints: tests.map((name) => path.join(here, "src", String(name))),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    loader: { ".css": "empty" },
    logLevel: "warning",
  });
  const files = readdirSync(out, { recursive: true }).map((name) => path.join(out, String(name)));
  const { status } = spawnSync(
    process.execPath,
    ["--test", "--test-reporter=spec", ...files.filter((name) => name.endsWith(".mjs"))],
    { stdio: "inherit" },
  );
  process.exitCode = status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
