// Mounts the explorer on a page that saccade wrote.
import { render } from "preact";
import { App, Problem } from "./app";
import { blocksOf, loadTrace, readHeader } from "./data";
import { worded } from "./look";

const root = document.getElementById("saccade") ?? document.body;
try {
  const page = readHeader(document.getElementById("saccade-data")?.textContent);
  const blocks = blocksOf(document);
  render(<App page={page} traces={page.traces.map((trace) => loadTrace(trace, blocks))} />, root);
} catch (error) {
  render(<Problem message={worded(error)} />, root);
}
