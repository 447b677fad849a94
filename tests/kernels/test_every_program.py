"""Every Triton program is launched by some case and gives the reference's answers; one that is not, or does not, is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

if torch.cuda.is_available():
    reason = "takes minutes to compile: benchmarks/kernels/every_program.py is run by itself on a GPU"
    pytest.skip(reason, allow_module_level=True)

from saccade.kernels.additive.direct_forms import reach_of  # noqa: E402

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "kernels"


def loaded(name: str) -> Any:
    spec = spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(name, module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


cases, script = loaded("program_cases"), loaded("every_program")


def brief(case: Any) -> Any:
    """One dtype: the others are in each family's own tests, and the interpreter is slow."""
    return replace(case, dtypes=case.dtypes[:1])


@pytest.mark.usefixtures("shapes_unchecked")
def test_every_program_of_the_package_is_launched_and_gives_the_references_answers() -> None:
    known = script.programs()
    wrong = script.examine(known, [brief(case) for case in script.CASES], "cpu")
    assert not wrong
    assert [program.name for program in known if not program.launches] == []
    assert len({program.name for program in known}) == len(known) > 20
    assert {program.verdict for program in known} == {"ok"}


@triton.jit
def _doubled(x):
    return x + x


@triton.jit
def lonely(x, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, _doubled(tl.load(x + place)))


def test_a_function_that_another_calls_is_not_a_program_and_one_that_nobody_launches_is_named() -> None:
    [program] = script.programs([_doubled, lonely])
    assert program.function is lonely
    assert program.verdict == "NEVER LAUNCHED" and "lonely" in str(program)
    numbers, out = torch.arange(4.0), torch.zeros(4)
    launched: list[Any] = []
    with script.noting({type(lonely)}, launched.append):
        lonely[(1,)](numbers, out, SIZE=4)
    assert launched == [lonely] and torch.equal(out, 2 * numbers)


def off_by(error: float) -> Any:
    def parts(draw: Any) -> Iterator[Any]:
        query = draw.uniform(3, 5)
        found = torch.tensor(reach_of(query, query), dtype=torch.float64)
        yield {"reach": found}, {"reach": found * (1 + error)}

    return cases.Case("additive", "its reach", parts, (torch.float32,))


@pytest.mark.parametrize(
    ("error", "told"), [(1e-6, []), (1e-3, ["additive, its reach, float32: reach is off by 0.001"])]
)
def test_an_answer_beyond_what_is_allowed_is_reported_with_the_programs_that_gave_it(
    error: float, told: list[str]
) -> None:
    known = script.programs()
    wrong = script.examine(known, [off_by(error)], "cpu")
    assert len(wrong) == len(told) and all(line.startswith(start) for line, start in zip(wrong, told, strict=True))
    assert [program.name for program in known if program.faults] == (
        ["additive.direct_forms._reach_kernel"] if told else []
    )


@pytest.mark.parametrize("found", [torch.nan, torch.inf, 0.5])
def test_no_answer_passes_for_another(found: float) -> None:
    exact = torch.tensor([1.0, -torch.inf], dtype=torch.float64)
    worst, fault = script._worst({"x": torch.tensor([found, -torch.inf])}, {"x": exact}, 1e-3)
    assert worst > 1 and "x is off" in fault
    assert script._worst({"x": exact.float()}, {"x": exact}, 1e-3) == (0.0, "")
    assert script._worst({}, {"x": exact}, 1e-3)[0] > 1


def test_the_command_fails_and_says_which_program_has_no_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local = [brief(case) for case in script.CASES if case.family == "local"]
    monkeypatch.setattr(sys, "argv", ["every_program.py", "--only", "local"])
    monkeypatch.setattr(script, "CASES", local)
    script.main()
    assert "3 programs, all launched" in capsys.readouterr().out
    monkeypatch.setattr(script, "CASES", [case for case in local if case.name == "centres"])
    with pytest.raises(SystemExit, match="key_gradients was never launched"):
        script.main()
    monkeypatch.setattr(sys, "argv", ["every_program.py", "--only", "elsewhere"])
    with pytest.raises(SystemExit, match="expected some of local, found elsewhere"):
        script.main()
