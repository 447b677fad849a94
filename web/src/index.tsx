// Mounts the explorer on a page that saccade wrote, once all of its scripts have added their views.
import { render } from "preact";
import { App, Problem } from "./app";
import { blocksOf, loadTrace, readHeader } from "./data";
import { worded } from "./look";

function mount(): void {
  const root = document.getElementById("saccade") ?? document.body;
  try {
    const page = readHeader(document.getElementById("saccade-data")?.textContent);
    const blocks = blocksOf(document);
    render(<App page={page} traces={page.traces.map((trace) => loadTrace(trace, blocks))} />, root);
  } catch (error) {
    render(<Problem message={worded(error)} />, root);
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mount);
else mount();
