"""``saccade predict`` of many lines: in order as they are made, continued after an interruption, without the bad ones."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from saccade import load
from saccade.api.bundle import Bundle
from saccade.cli import options
from saccade.cli.predict import Outputs
from saccade.errors import SaccadeError
from tests.animals import trained

ANIMALS = ("hund", "katze", "maus")
TEXTS = [f"der {ANIMALS[n % 3]} ist {['rot', 'alt', 'neu'][n % 7 % 3]}" for n in range(47)]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    trained(home, "my")
    (home / "other").mkdir()
    trained(home / "other", "my")
    network = load(home / "other" / "run", device="cpu")
    next(iter(network.network.parameters())).data.add_(0.25)
    network.save(home / "other" / "run")
    return home


class Piped:
    """Standard input with these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)

    def isatty(self) -> bool:
        return False


@pytest.fixture
def predict(command, monkeypatch, home, tmp_path):
    """Runs the command on lines of standard input: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(content: bytes | list[str], *words: object, model: str = "run") -> tuple[int, str, str]:
        given = content if isinstance(content, bytes) else "".join(f"{text}\n" for text in content).encode()
        monkeypatch.setattr(sys, "stdin", Piped(given))
        return command("predict", home / model, *words)

    return run


@pytest.fixture(scope="module")
def expected(home) -> list[str]:
    return [prediction.value for prediction in load(home / "run", device="cpu").predict(TEXTS)]


def killed_at(monkeypatch, number: int) -> None:
    """The predictions of chunk ``number`` are interrupted, as by Ctrl-C."""
    calls, own = [], Bundle.predict

    def interrupted(*words, **more):
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return own(*words, **more)

    monkeypatch.setattr(Bundle, "predict", interrupted)


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interruption_leaves_whole_lines_and_the_same_command_continues_after_them(
    predict, expected, monkeypatch, as_json
) -> None:
    words = ("--out", "out.txt", *["--json"][:as_json])
    with monkeypatch.context() as patch:
        killed_at(patch, 2)
        status, _, err = predict(TEXTS, *words)
        assert status == 130 and f"stopped after {options.FIRST_CHUNK} inputs; the same command continues" in err
    first = Path("out.txt").read_text()
    assert len(first.splitlines()) == options.FIRST_CHUNK
    with open("out.txt", "a") as file:
        file.write("a line that was not recor")  # as a kill between the two files leaves it
    status, out, err = predict(TEXTS, *words)
    assert (status, out) == (0, "") and f"after {options.FIRST_CHUNK} inputs" in err
    lines = Path("out.txt").read_text().splitlines()
    assert [json.loads(line)["output"] for line in lines] if as_json else lines == expected
    assert Path("out.txt").read_text().startswith(first)
    assert os.listdir() == ["out.txt"], "nothing is left to continue"


def test_a_file_of_other_inputs_of_another_run_or_of_other_options_is_refused_and_stays(
    predict, monkeypatch, expected
) -> None:
    with monkeypatch.context() as patch:
        killed_at(patch, 2)
        predict(TEXTS, "--out", "out.txt")
    before = Path("out.txt").read_text()
    for content, words, run, message in (
        (["katze", *TEXTS[1:]], (), "run", "expected outputs of these inputs"),
        (TEXTS[:3], (), "run", "expected outputs of these 3 inputs, found those of 16"),
        (TEXTS, (), "other/run", "expected outputs of this run"),
        (TEXTS, ("--beam", "1"), "run", "expected outputs of this command"),
    ):
        status, _, err = predict(content, "--out", "out.txt", *words, model=run)
        assert status == 1 and f"out.txt: --out: {message}" in err
        assert Path("out.txt").read_text() == before
    assert predict(TEXTS, "--out", "out.txt", "--force")[0] == 0
    assert Path("out.txt").read_text().splitlines() == expected
    status, _, err = predict(TEXTS, "--out", "out.txt")
    assert status == 1 and "expected a new file, found an existing one" in err
    assert os.listdir() == ["out.txt"], "no lock is left"


def test_lines_are_printed_before_the_next_are_read(home, expected) -> None:
    command = [sys.executable, "-m", "saccade", "predict", str(home / "run")]
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # background jobs of a shell ignore it
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding
    )
    process.stdin.write(f"{TEXTS[0]}\n{TEXTS[1]}\n".encode())
    process.stdin.flush()
    assert [process.stdout.readline().decode() for _ in range(2)] == [f"{line}\n" for line in expected[:2]]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130 and b"Traceback" not in err


def test_an_invalid_byte_costs_only_its_own_line(predict, expected) -> None:
    bad = b"\n".join([TEXTS[0].encode(), b"der \xff hund", TEXTS[2].encode(), b" ", TEXTS[4].encode()])
    status, out, err = predict(bad)
    assert status == 1
    assert out.splitlines() == [expected[0], "", expected[2], "", expected[4]]
    assert "error: stdin, line 2: expected UTF-8 text, found the byte 0xff" in err
    assert "error: stdin, line 4: expected a text, found whitespace only" in err
    status, out, _ = predict(bad, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 1 and ["error" in row for row in rows] == [False, True, False, True, False]


def test_a_bad_line_can_stop_the_command_which_continues_once_it_is_mended(predict, expected) -> None:
    words = ("--out", "out.txt", "--on-error", "stop")
    status, _, err = predict([*TEXTS[:21], "", *TEXTS[22:]], *words)
    assert status == 1 and err.endswith("error: stdin, line 22: expected a text, found nothing\n")
    assert Path("out.txt").read_text().splitlines() == expected[:21]
    assert predict(TEXTS, *words)[0] == 0
    assert Path("out.txt").read_text().splitlines() == expected


def test_the_exit_status_still_tells_of_a_bad_line_before_the_interruption(predict, monkeypatch) -> None:
    texts = ["", *TEXTS[1:]]
    with monkeypatch.context() as patch:
        killed_at(patch, 2)
        predict(texts, "--out", "out.txt")
    assert predict(texts, "--out", "out.txt")[0] == 1


def test_an_input_that_fails_while_it_is_predicted_costs_only_its_own_line(predict, expected, monkeypatch) -> None:
    own = Bundle.predict

    def failing(bundle, inputs, **more):
        if TEXTS[20] in inputs:
            raise SaccadeError("the network's outputs are NaN")
        return own(bundle, inputs, **more)

    monkeypatch.setattr(Bundle, "predict", failing)
    texts = [text if text != TEXTS[20] or n == 20 else TEXTS[0] for n, text in enumerate(TEXTS)]
    status, out, err = predict(texts)
    assert status == 1 and err == "error: the network's outputs are NaN\n"
    assert [n for n, line in enumerate(out.splitlines()) if not line] == [20]


def test_an_option_that_no_input_can_have_is_one_error(predict) -> None:
    status, out, err = predict(TEXTS, "--require", "hund", "--sample")
    assert (status, out) == (1, "") and len(err.splitlines()) == 1


def test_chunks_grow_and_hold_the_lines_in_order(monkeypatch) -> None:
    lines = [b"%d" % number for number in range(5000)]
    monkeypatch.setattr(sys, "stdin", Piped(b"\xef\xbb\xbf" + b"\r\n".join(lines)))
    chunks = list(options.line_chunks())
    assert [line for chunk in chunks for line in chunk] == lines
    assert len(chunks[0]) == options.FIRST_CHUNK and max(map(len, chunks)) == options.LARGEST_CHUNK


def test_a_line_without_end_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(options, "LONGEST_LINE", 100_000)
    monkeypatch.setattr(sys, "stdin", Piped(b"one\n" + b"x" * 300_000))
    with pytest.raises(SaccadeError, match=r"stdin, line 2: expected a text, found more than 100,000 bytes"):
        list(options.line_chunks())


def test_two_processes_cannot_write_one_file(tmp_path) -> None:
    with (
        Outputs(tmp_path / "out.txt", {}),
        pytest.raises(SaccadeError, match="expected a file that no other process is writing, found process"),
        Outputs(tmp_path / "out.txt", {}),
    ):
        pytest.fail("both entered")


def test_a_full_disk_is_one_error_and_what_was_written_continues(tmp_path) -> None:
    resource = pytest.importorskip("resource")
    out, job = tmp_path / "out.txt", {"run": "1"}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Outputs(out, job) as file:
            file.write(["first"], [b"1"])
            resource.setrlimit(resource.RLIMIT_FSIZE, (6, before[1]))
            with pytest.raises(SaccadeError, match=r"could not write: .*the outputs of 1 inputs are whole"):
                file.write(["second"], [b"2"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    with Outputs(out, job) as file:
        assert list(file.left([[b"1", b"2"]])) == [(1, [b"2"])]
        file.write(["second"], [b"2"])
        file.complete()
    assert out.read_text() == "first\nsecond\n"
