"""``saccade view``: shows attention in the terminal, as a picture, as an interactive page, or live."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Inputs, lines, print_notes, trained_runs
from saccade.cli.printing import print
from saccade.cli.search_options import Steering, with_options
from saccade.cli.tables import size
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.trace.maps import Trace

SERVING = "Serving"
PAGE, TRACE = ".html", ".trace"
UNSERVED = "cannot be combined with --serve: the page has its own controls"


@with_options(Steering)
def view(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN", help="The folder of a trained run, or a .trace file.", autocompletion=trained_runs
        ),
    ] = None,
    inputs: Inputs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write a page (.html), a picture (.png, .svg, .pdf) or a .trace instead of drawing in the terminal."
        ),
    ] = None,
    site: Annotated[
        str | None, typer.Option("--site", metavar="SITE", help="Only this attention site, e.g. decoder.1.cross.")
    ] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Only this head, of each site or of --site.")] = None,
    truth: Annotated[
        bool,
        typer.Option(
            "--truth", help="Add a faithfulness test to the page: mask the attended inputs and see what changes."
        ),
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Write a gallery with an example of each kind; needs no run.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page with a live model.", rich_help_panel=SERVING)
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Default 8100; 0: a free port.", rich_help_panel=SERVING)
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen at; default: this machine only.", rich_help_panel=SERVING)
    ] = None,
    *,
    options: Steering,
) -> None:
    """Show a model's attention. In the terminal, as a picture, or as a page.

    \b
    saccade view runs/my "a text"
    saccade view runs/my "a text" --out where.html
    saccade view runs/my "a text" "another" --out where.html
    saccade view runs/my --serve
    saccade view runs/my "a text" --out where.svg
    saccade view runs/my "a text" --out where.trace
    saccade view where.trace --out where.html
    saccade view runs/my "a text" --site decoder.1.cross --head 3
    saccade view runs/my "a text" --truth --out where.html
    saccade view --demo

    A page is one self-contained file with every step of every text. With --serve the model answers it: change the input or
    edit the attention, and see the new output.

    The terminal shows the mean over many heads, a picture shows each; --site and --head choose. Several texts give where-1.svg,
    where-2.svg, but one page; several aspects of one sentence give one picture with a row per aspect. A .trace keeps every
    weight; saccade.Trace.load reads it, and RUN may be one.
    """
    drawing = {"--site": site, "--head": head, "--truth": truth or None}
    serving = {"--port": port, "--host": host}
    if demo:
        _refuse({**drawing, "--serve": serve or None, **serving}, "cannot be combined with --demo")
        _demo(run, out, options)
        return
    if run is None:
        raise SaccadeError("command line: expected RUN, a trained run's folder or a .trace; --demo needs none")
    if serve:
        _refuse({"--out": out, **drawing}, UNSERVED)
        _serve(run, inputs or [], options, port, host)
        return
    _refuse(serving, "needs --serve")
    _check_ending(out)
    if truth and (_is_trace(run) or out is None or out.suffix.lower() not in (PAGE, TRACE)):
        raise SaccadeError(
            f"command line: --truth needs a run and a page: saccade view RUN INPUT --truth --out x{PAGE}"
        )
    traces = _read(run, inputs or [], options) if _is_trace(run) else _predict(run, inputs, options, out, truth)
    chosen = [trace.only(site, head) for trace in traces]
    if out is None or out.suffix.lower() not in (PAGE, TRACE):
        from saccade.views.panels import merge_aspects

        chosen = merge_aspects(chosen)
    if out is None:
        _draw(chosen)
    else:
        _write(chosen, out)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Raise if any of these options is given."""
    unused = next((option for option, value in given.items() if value is not None), None)
    if unused is not None:
        raise SaccadeError(f"command line: {unused} {why}")


def _is_trace(run: Path) -> bool:
    return run.suffix == TRACE and not run.is_dir()


def _check_ending(out: Path | None) -> None:
    """Raise for an unknown file ending, before a model is loaded."""
    from saccade.trace.maps import RENDERERS

    endings = sorted(ending for ending in RENDERERS if ending.startswith("."))
    if out is not None and out.suffix.lower() not in endings:
        raise SaccadeError(
            f"{out}: expected a file ending in one of {', '.join(endings)}, found {out.suffix or 'no ending'!r}"
        )


def _demo(run: Path | None, out: Path | None, options: Steering) -> None:
    """Write the gallery, and open it in a browser if stdout is a terminal."""
    import webbrowser

    from saccade.views.html import gallery

    if run is not None:
        raise SaccadeError(f"command line: --demo shows its own examples: expected no run, found {run}")
    if options != Steering():
        raise SaccadeError("command line: options of the search need a run: --demo has no model")
    _check_ending(out)
    if out is not None and out.suffix.lower() != PAGE:
        raise SaccadeError(f"{out}: expected a file ending in {PAGE} for the gallery, found {out.suffix!r}")
    path = gallery.save(out or Path("gallery.html"))
    print(f"{path}  ({size(path.stat().st_size)})")
    if out is None and sys.stdout.isatty():
        webbrowser.open(path.resolve().as_uri())


def _predict(run: Path, inputs: list[str] | None, options: Steering, out: Path | None, truth: bool) -> list[Trace]:
    """The trace of each input; with every detail for pages and .trace files."""
    from saccade.explain import erasure
    from saccade.trace.lens import DETAILS, Lens

    ending = "" if out is None else out.suffix.lower()
    bundle = options.load(run)
    texts = inputs or lines()
    lens = Lens(detail=DETAILS if ending in (PAGE, TRACE) else ())
    traces = []
    given = [bundle.task.input.from_argument(text, f"input {number}") for number, text in enumerate(texts, start=1)]
    for text, one, prediction in zip(texts, given, options.predictor(bundle, lens=lens)(given), strict=True):
        print_notes(text, prediction)
        # Pages and .trace files also show states and likely outputs.
        if prediction.trace is None or not (prediction.trace.maps or ending in (PAGE, TRACE)):
            hint = f"; a page shows its states and outputs: --out x{PAGE}" if prediction.trace is not None else ""
            raise SaccadeError(f"{run}: {bundle.recipe.model_name} has no attention: there is nothing to draw{hint}")
        traces.append(erasure.tested(bundle, one, prediction.trace) if truth else prediction.trace)
    return traces


def _read(first: Path, others: Sequence[str], options: Steering) -> list[Trace]:
    """Load .trace files."""
    from saccade.trace.maps import Trace

    if options != Steering():
        raise SaccadeError(f"{first}: options of the search need a run: a trace has no model")
    wrong = next((name for name in others if Path(name).suffix != TRACE), None)
    if wrong is not None:
        raise SaccadeError(f"command line: expected further {TRACE} files after {first}, found {wrong!r}")
    return [Trace.load(path) for path in (first, *map(Path, others))]


def _draw(traces: Sequence[Trace]) -> None:
    from saccade.views.terminal.show import MOST_MAPS

    for trace in traces:
        if not trace.maps:
            raise SaccadeError(f"this trace has no attention maps to draw; a page shows the rest: --out x{PAGE}")
        trace.show()
    if len(traces[-1].maps) > MOST_MAPS:
        print(f"\n{_choices(traces[-1])}")


def _write(traces: Sequence[Trace], out: Path) -> None:
    if out.suffix.lower() == PAGE:
        from saccade.views.html.page import save

        save(traces, out)
        print(
            f"{_summary(traces[0]) if len(traces) == 1 else f'{len(traces)} inputs'}  {out}  ({size(out.stat().st_size)})"
        )
        return
    for number, trace in enumerate(traces):
        path = out if len(traces) == 1 else out.with_stem(f"{out.stem}-{number + 1}")
        trace.save(path)
        print(f"{_summary(trace)}  {path}")


def _summary(trace: Trace) -> str:
    return " → ".join(str(trace.about[part]) for part in ("input", "output") if part in trace.about) or "trace"


def _choices(trace: Trace) -> str:
    """How to choose a site and head, and which there are."""
    sites = trace.sites
    chosen = "--head N" if len(sites) == 1 else "--site SITE [--head N]"
    there = ", ".join(f"{site} ({len(heads)} head{'s' * (len(heads) != 1)})" for site, heads in sites.items())
    return f"to show one: {chosen}; there are {there}"


def _serve(run: Path, inputs: list[str], options: Steering, port: int | None, host: str | None) -> None:
    """Serve the page with the model until Ctrl-C."""
    _refuse({f"--{name}": getattr(options, name) for name in ("prefix", "require", "forbid", "dictionary")}, UNSERVED)
    if run.suffix == TRACE:
        raise SaccadeError(f"{run}: --serve needs a run: a trace has no model; --out x{PAGE} makes a page of it")
    from saccade import server

    serve = server.run  # fails before a model is loaded if FastAPI or uvicorn is missing
    bundle = options.load(run)
    bundle.recipe = replace(bundle.recipe, search=options.search(bundle))
    given: dict[str, Any] = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    serve({bundle.recipe.name: bundle}, open_page=sys.stdout.isatty(), inputs=inputs, **given)
