"""The numbers of the three claims as tables and as pictures."""

from __future__ import annotations

import datetime
import io
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from networks import FORMULAS, layers_to_see, steps_seen
from recall import CHANCE

from saccade.storage import write_bytes
from saccade.views.charts.by_length import COLOURS, MARKERS
from saccade.views.figure.figure import METADATA, settings
from saccade.views.figure.page import HAIRLINE, INK, QUIET

Cells = dict[str, dict[str, Any]]
NOTHING = "–"


def written_table(
    plan: Any, about: dict[str, Any], cells: Cells, command: str, pictures: dict[str, Path], folder: Path
) -> str:
    """Everything that was measured, as Markdown; ``folder`` is where it will stand."""
    kernel = about["kernel"]
    depths = ", ".join(f"{layers_to_see(length, kernel)} for {length:,} places" for length in ends(plan.lengths))
    origin = f"{datetime.date.today()}, {about['machine']}. Python {about['python']}, torch {about['torch']}"
    sizes = f"Width {about['width']}, {about['layers']} layers, kernel {kernel}, {about['heads']} heads."
    seen = f"The CNN sees {steps_seen(about['layers'], kernel)} steps back"
    lines = [
        "# Three claims about attention, measured",
        "",
        f"{origin}, saccade {about['saccade']}. `{command}`",
        "",
        f"{sizes} {seen}; layers of the one that is deep enough: {depths}.",
    ]
    for claim, part in (("parameters", parameter_lines), ("speed", speed_lines), ("memory", memory_lines)):
        if any(key.startswith(f"{claim}/") for key in cells):
            lines += ["", *part(plan, about, cells)]
            if claim in pictures:
                lines += ["", f"![{claim}]({Path(os.path.relpath(pictures[claim], folder)).as_posix()})"]
    return "\n".join(lines) + "\n"


def ends(numbers: Sequence[int]) -> list[int]:
    """The least, the middle and the greatest."""
    return sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]})


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def parameter_lines(plan: Any, about: dict[str, Any], cells: Cells) -> list[str]:
    columns = [("width", "D", width) for width in plan.widths] + [("kernel", "k", kernel) for kernel in plan.kernels]
    columns += [("length", "length", length) for length in ends(plan.lengths)]
    rows = []
    for name in plan.networks:
        found = [cells.get(f"parameters/{name}/{kind}/{value}") for kind, _, value in columns]
        rows.append([name, FORMULAS[name], *(f"{each['parameters']:,}" if each else NOTHING for each in found)])
    rest = f"D = {about['width']:,}, k = {about['kernel']}, length {plan.lengths[-1]:,}"
    return [
        "## Fewer parameters?",
        "",
        f"By width (D), kernel (k) and length of the sequence, the rest being {rest}. Input and output layers are left out.",
        "",
        *grid(["network", "a layer", *(f"{short} = {value:,}" for _, short, value in columns)], rows),
    ]


def speed_lines(plan: Any, about: dict[str, Any], cells: Cells) -> list[str]:
    def row(name: str, field: str) -> list[str]:
        found = [cells.get(f"speed/{name}/{length}", {}) for length in plan.lengths]
        return [name, *(each.get("failed") or (f"{each[field]:,.1f}" if field in each else NOTHING) for each in found)]

    head = ["network", *(f"{length:,}" for length in plan.lengths)]
    how = f"{about['tokens']:,} tokens in every batch, precision {about['precision']}, the median of the repeats"
    lines = [
        "## Parallel, so faster?",
        "",
        f"Milliseconds of a training step (forward, backward, update) by length: {how}. No graphs, no compilation.",
        "",
        *grid(head, [row(name, "ms") for name in plan.networks]),
    ]
    if any("peak_mb" in each for key, each in cells.items() if key.startswith("speed/")):
        lines += ["", "Most memory held on the GPU, MB:", ""]
        lines += grid(head, [row(name, "peak_mb") for name in plan.networks])
    return lines


def trainings(plan: Any, cells: Cells, name: str, distance: int) -> list[dict[str, Any]]:
    keys = [f"memory/{name}/{distance}/{seed}" for seed in plan.seeds]
    return [cells[key] for key in keys if key in cells]


def memory_lines(plan: Any, about: dict[str, Any], cells: Cells) -> list[str]:
    def share(name: str, distance: int) -> str:
        shares = [each["accuracy"] for each in trainings(plan, cells, name, distance)]
        if not shares:
            return NOTHING
        spread = f" ({min(shares):.2f}–{max(shares):.2f})" if max(shares) - min(shares) >= 0.005 else ""
        return f"{statistics.mean(shares):.3f}{spread}"

    def taken(name: str, distance: int) -> str:
        made = trainings(plan, cells, name, distance)
        solved = sorted(each["updates"] for each in made if each["solved"])
        if not made:
            return NOTHING
        often = f" ({len(solved)} of {len(made)})" if len(solved) < len(made) else ""
        return f"{statistics.median(solved):,.0f}{often}" if solved else "never"

    head = ["network", *(f"{distance:,}" for distance in plan.distances)]
    budget = f"at most {about['updates']:,} updates of {about['sequences']} sequences, learning rate {about['lr']:g}"
    seeds = f"the mean over {len(plan.seeds)} seeds (least–greatest)" if len(plan.seeds) > 1 else "one seed"
    return [
        "## No loss over distance?",
        "",
        f"The share of items recalled so many steps after they were shown: chance {CHANCE:.4f}, optimum 1.",
        f"One network a distance, {budget}; {seeds}.",
        "",
        *grid(head, [[name, *(share(name, distance) for distance in plan.distances)] for name in plan.networks]),
        "",
        "Updates until every item of two checks in a row was recalled, the median of the seeds that came so far:",
        "",
        *grid(head, [[name, *(taken(name, distance) for distance in plan.distances)] for name in plan.networks]),
    ]


# ---- Pictures

Curve = tuple[list[float], list[float], list[float], list[float]]  # where, how much, at least, at most


def draw_plots(plan: Any, cells: Cells, folder: Path) -> dict[str, Path]:
    """``parameters.png``, ``speed.png`` and ``memory.png``, of what was measured."""
    pictures: dict[str, Path] = {}
    for claim, curve, across, up in (
        ("parameters", parameter_curve, "width", "parameters"),
        ("speed", speed_curve, f"tokens in a sequence ({plan.tokens:,} in a batch)", "milliseconds a training step"),
        ("memory", memory_curve, "steps since the item was shown", "share of items recalled"),
    ):
        curves = {name: curve(plan, cells, name) for name in plan.networks}
        curves = {name: found for name, found in curves.items() if found[0]}
        if curves:
            pictures[claim] = folder / f"{claim}.png"
            save(curves, across, up, pictures[claim], chance=CHANCE if claim == "memory" else None)
    return pictures


def parameter_curve(plan: Any, cells: Cells, name: str) -> Curve:
    at = [width for width in plan.widths if f"parameters/{name}/width/{width}" in cells]
    counts = [float(cells[f"parameters/{name}/width/{width}"]["parameters"]) for width in at]
    return [float(width) for width in at], counts, counts, counts


def speed_curve(plan: Any, cells: Cells, name: str) -> Curve:
    at = [length for length in plan.lengths if "ms" in cells.get(f"speed/{name}/{length}", {})]
    found = [cells[f"speed/{name}/{length}"] for length in at]
    middle, low, high = ([each[field] for each in found] for field in ("ms", "lower", "upper"))
    return [float(length) for length in at], middle, low, high


def memory_curve(plan: Any, cells: Cells, name: str) -> Curve:
    made = {distance: trainings(plan, cells, name, distance) for distance in plan.distances}
    shares = {distance: [each["accuracy"] for each in those] for distance, those in made.items() if those}
    middle = [statistics.mean(those) for those in shares.values()]
    return [float(at) for at in shares], middle, [min(s) for s in shares.values()], [max(s) for s in shares.values()]


def save(curves: dict[str, Curve], across: str, up: str, path: Path, *, chance: float | None) -> None:
    """A line a network over a logarithmic axis; a share is drawn from 0 to 1 with its chance, the rest logarithmically."""
    with settings():
        figure = Figure(figsize=(6.4, 4.2), facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for number, (name, (where, middle, low, high)) in enumerate(curves.items()):
            colour = COLOURS[number % len(COLOURS)]
            if chance is not None:  # many are right throughout: beside each other, none hides another
                where = [at * 1.02 ** (number - (len(curves) - 1) / 2) for at in where]
            axes.fill_between(where, low, high, color=colour, alpha=0.13, linewidth=0)
            axes.plot(
                where, middle, color=colour, label=name, linewidth=1.6, marker=MARKERS[number % len(MARKERS)], markersize=5,
                markeredgecolor="white", markeredgewidth=0.6, clip_on=False,
            )  # fmt: skip
        axes.set_xscale("log")
        ticks = sorted({at for where, *_ in curves.values() for at in where})
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{tick:,.0f}" for tick in ticks])
        if chance is None:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        else:
            axes.set_ylim(0, 1.03)
            axes.axhline(chance, color=QUIET, linewidth=0.8, linestyle=(0, (4, 3)))
            axes.annotate("chance", (ticks[0], chance), (0, 3), textcoords="offset points", color=QUIET, fontsize=7)
        axes.set_xlabel(across, color=INK, fontsize=9)
        axes.set_ylabel(up, color=INK, fontsize=9)
        axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(which="both", colors=QUIET, labelcolor=INK, labelsize=8, length=0, pad=4)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(HAIRLINE)
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8, labelcolor=INK, handlelength=2.6)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=160, metadata=METADATA["png"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, file.getvalue())
