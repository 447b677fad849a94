"""What the tables of the benchmarks call a machine: its CPU's model, or its GPU."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"
TWO_CORES = "processor\t: 0\nmodel name\t: Some CPU: 3 GHz\n\nprocessor\t: 1\nmodel name\t: Other CPU\n"


@pytest.fixture
def machine() -> Any:
    spec = spec_from_file_location("machine", FOLDER / "machine.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_cpu_is_called_by_the_first_model_name_that_linux_tells(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    machine.CPUINFO.write_text(TWO_CORES, encoding="utf-8")
    assert machine.cpu_name() == "Some CPU: 3 GHz"


@pytest.mark.parametrize("told", [None, "processor\t: 0\nBogoMIPS\t: 50.00\n", "model name\t: \n"])
@pytest.mark.parametrize(("processor", "name"), [("arm", "arm"), ("", "aarch64")])
def test_a_cpu_without_a_model_name_is_called_what_python_knows(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, processor: str, name: str
) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    if told is not None:
        machine.CPUINFO.write_text(told, encoding="utf-8")
    monkeypatch.setattr(machine.platform, "processor", lambda: processor)
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert machine.cpu_name() == name


@pytest.mark.parametrize(
    ("device", "found", "name"),
    [(None, True, "a GPU"), (None, False, "a CPU"), ("cuda", True, "a GPU"), ("cpu", True, "a CPU")],
)
def test_a_gpu_is_named_where_it_is_asked_for_or_found(
    machine: Any, monkeypatch: pytest.MonkeyPatch, device: str | None, found: bool, name: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(machine, "cpu_name", lambda: "a CPU")
    assert machine.device_name(device) == name


def test_the_name_of_a_cpu_does_not_load_torch() -> None:
    code = "import machine, sys; assert machine.cpu_name(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=FOLDER, check=False).returncode == 0
