"""``saccade view``: where a model looks, in the terminal, as a picture, as a page to explore, or live."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.completion import trained_runs
from saccade.cli.options import lines, print_notes
from saccade.cli.search_options import Steering, with_options
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.trace.maps import Trace

SERVING = "Serving"
PAGE, KEPT = ".html", ".trace"
UNSERVED = "does not go with --serve: the page asks for what it wants"


@with_options(Steering)
def view(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN", help="The folder of a trained run, or a .trace file.", autocompletion=trained_runs
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; lines of stdin unless given.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a page (.html), a picture (.png, .svg, .pdf) or a .trace instead of drawing here."),
    ] = None,
    site: Annotated[
        str | None, typer.Option(metavar="SITE", help="One place where the model looks, e.g. decoder.1.cross.")
    ] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="One head of each place, or of --site.")] = None,
    truth: Annotated[
        bool, typer.Option("--truth", help="Test the weights for the page: hide what was looked at, see what changes.")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Write a gallery, an example of each kind, instead; needs no run.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open the page with the model behind it.", rich_help_panel=SERVING)
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="8100 unless given; 0: a free one.", rich_help_panel=SERVING)
    ] = None,
    host: Annotated[str | None, typer.Option(help="This machine alone unless given.", rich_help_panel=SERVING)] = None,
    *,
    options: Steering,
) -> None:
    """Show where a model looks: here, as a picture, or as a page.

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

    A page holds every step of every text in one file that needs nothing else. With --serve the model answers it: change the
    input, move its attention, and see what it writes then.

    Of many heads the terminal shows the mean, a picture each one; --site and --head choose. Several texts make where-1.svg,
    where-2.svg, but one page; several aspects of one sentence make one picture, a row each. A .trace keeps every weight;
    saccade.Trace.load reads it, and RUN may be one.
    """
    drawing = {"--site": site, "--head": head, "--truth": truth or None}
    serving = {"--port": port, "--host": host}
    if demo:
        _refuse({**drawing, "--serve": serve or None, **serving}, "does not go with --demo: the gallery is as it is")
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
    if truth and (_is_trace(run) or out is None or out.suffix.lower() not in (PAGE, KEPT)):
        raise SaccadeError(
            f"command line: --truth asks a run, for a page: saccade view RUN INPUT --truth --out x{PAGE}"
        )
    shown = _read(run, inputs or [], options) if _is_trace(run) else _looked(run, inputs, options, out, truth)
    chosen = [trace.only(site, head) for trace in shown]
    if out is None or out.suffix.lower() not in (PAGE, KEPT):
        from saccade.views.figure.aspects import gathered

        chosen = gathered(chosen)
    if out is None:
        _draw(chosen)
    else:
        _write(chosen, out)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Say of the first of these options that was given why it cannot be."""
    unused = next((option for option, value in given.items() if value is not None), None)
    if unused is not None:
        raise SaccadeError(f"command line: {unused} {why}")


def _is_trace(run: Path) -> bool:
    return run.suffix == KEPT and not run.is_dir()


def _check_ending(out: Path | None) -> None:
    """Before a model is loaded and has worked."""
    from saccade.trace.maps import RENDERERS

    endings = sorted(ending for ending in RENDERERS if ending.startswith("."))
    if out is not None and out.suffix.lower() not in endings:
        raise SaccadeError(
            f"{out}: expected a file ending in one of {', '.join(endings)}, found {out.suffix or 'no ending'!r}"
        )


def _demo(run: Path | None, out: Path | None, options: Steering) -> None:
    """The gallery as a page, opened where a person sits before it."""
    import webbrowser

    from saccade.views import gallery

    if run is not None:
        raise SaccadeError(f"command line: --demo shows its own examples, found {run} beside it")
    if options != Steering():
        raise SaccadeError("command line: options that steer a model need a run: --demo has no model behind it")
    _check_ending(out)
    if out is not None and out.suffix.lower() != PAGE:
        raise SaccadeError(f"{out}: the gallery is a page: expected a file ending in {PAGE}")
    path = gallery.save(out or Path("gallery.html"))
    print(f"{path}  ({_size(path)})")
    if out is None and sys.stdout.isatty():
        webbrowser.open(path.resolve().as_uri())


def _looked(run: Path, inputs: list[str] | None, options: Steering, out: Path | None, truth: bool) -> list[Trace]:
    """What the run's model looked at for each input; pages and traces get every detail."""
    from saccade.explain import erasure
    from saccade.trace.lens import DETAILS, Lens

    ending = "" if out is None else out.suffix.lower()
    bundle = options.load(run)
    texts = inputs or lines()
    lens = Lens(detail=DETAILS if ending in (PAGE, KEPT) else ())
    traces = []
    given = [bundle.task.input.from_argument(text, f"input {number}") for number, text in enumerate(texts, start=1)]
    for text, prediction in zip(texts, options.predict(bundle, given, lens=lens), strict=True):
        print_notes(text, prediction)
        # A page and a trace have more to show than maps: states, and what was likely.
        if prediction.trace is None or not (prediction.trace.maps or ending in (PAGE, KEPT)):
            hint = f"; a page shows how it went: --out x{PAGE}" if prediction.trace is not None else ""
            raise SaccadeError(
                f"{run}: {bundle.recipe.model_name} does not look back at its input: there is nothing to draw{hint}"
            )
        traces.append(erasure.tested(bundle, text, prediction.trace) if truth else prediction.trace)
    return traces


def _read(first: Path, others: Sequence[str], options: Steering) -> list[Trace]:
    """The traces of files."""
    from saccade.trace.maps import Trace

    if options != Steering():
        raise SaccadeError(f"{first}: options that steer a model need a run: a trace has no model behind it")
    wrong = next((name for name in others if Path(name).suffix != KEPT), None)
    if wrong is not None:
        raise SaccadeError(f"command line: expected further {KEPT} files after {first}, found {wrong!r}")
    return [Trace.load(path) for path in (first, *map(Path, others))]


def _draw(traces: Sequence[Trace]) -> None:
    from saccade.views.terminal.show import MOST_MAPS

    for trace in traces:
        if not trace.maps:
            raise SaccadeError(
                f"this trace holds no maps: there is nothing to draw; a page shows the rest: --out x{PAGE}"
            )
        trace.show()
    if len(traces[-1].maps) > MOST_MAPS:
        print(f"\n{_choices(traces[-1])}")


def _write(traces: Sequence[Trace], out: Path) -> None:
    if out.suffix.lower() == PAGE:
        from saccade.views.html.page import save

        save(traces, out)
        print(f"{_said(traces[0]) if len(traces) == 1 else f'{len(traces)} inputs'}  {out}  ({_size(out)})")
        return
    for number, trace in enumerate(traces):
        path = out if len(traces) == 1 else out.with_stem(f"{out.stem}-{number + 1}")
        trace.save(path)
        print(f"{_said(trace)}  {path}")


def _said(trace: Trace) -> str:
    return " → ".join(str(trace.about[part]) for part in ("input", "output") if part in trace.about) or "trace"


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _choices(trace: Trace) -> str:
    """What there is to choose from, where heads are drawn as their mean."""
    sites = trace.sites
    chosen = "--head N" if len(sites) == 1 else "--site SITE [--head N]"
    there = ", ".join(f"{site} ({len(heads)} head{'s' * (len(heads) != 1)})" for site, heads in sites.items())
    return f"one alone: {chosen}; there are {there}"


def _serve(run: Path, inputs: list[str], options: Steering, port: int | None, host: str | None) -> None:
    """The page with the model behind it, until Ctrl-C."""
    _refuse({f"--{name}": getattr(options, name) for name in ("prefix", "require", "forbid", "dictionary")}, UNSERVED)
    if run.suffix == KEPT:
        raise SaccadeError(
            f"{run}: --serve needs a run: a trace has no model behind it; --out x{PAGE} makes a page of it"
        )
    from saccade import server

    serve = server.run  # says what to install where it cannot be had, before a model is loaded
    bundle = options.load(run)
    bundle.recipe = replace(bundle.recipe, search=options.search(bundle))
    given: dict[str, Any] = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    serve({bundle.recipe.name: bundle}, open_page=sys.stdout.isatty(), inputs=inputs, **given)
