"""The command line, as a person uses it: what it prints, and how it fails."""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from saccade import api
from tests.tiny import SMALL, tiny

EXECUTABLE = [sys.executable, "-m", "saccade"]


@pytest.fixture
def saccade(command, monkeypatch, tmp_path):
    """Runs the command in this process: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return command


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    api.train(tiny("train.epochs=1"), folder=folder)
    return folder


def test_a_process_in_another_folder_runs_this_package(tmp_path):
    """Also where PYTHONPATH is given as a relative path."""
    program = "import saccade.api; print(saccade.api.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert Path(done.stdout.strip()) == Path(api.__file__).resolve()


def test_help_loads_no_torch():
    program = (
        "import sys; sys.argv = ['saccade', '--help']\n"
        "from saccade.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert "Train, see and ship" in done.stdout, done.stderr
    assert "AssertionError" not in done.stderr


def test_a_command_imports_no_other_command():
    program = (
        "import sys; sys.argv = ['saccade', 'recipes', '--help']\n"
        "from saccade.cli import COMMANDS, main\n"
        "try: main()\n"
        "finally: print(sorted({home.partition(':')[0] for home in COMMANDS.values()} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert done.stdout.splitlines()[-1] == "['saccade.cli.recipes']", done.stderr


def test_a_misspelt_command_is_answered_with_its_neighbour():
    done = subprocess.run([*EXECUTABLE, "trian"], capture_output=True, check=False, text=True)
    assert done.returncode == 2
    assert "train" in done.stderr.splitlines()[-1]


def test_import_loads_no_torch():
    program = "import saccade, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_training_shows_figures_predictions_a_picture_and_what_to_try_next(saccade):
    status, out, err = saccade("train", "rnnsearch_dates", *SMALL, "--out", "here")
    assert status == 0, err
    assert "rnnsearch, " in out
    assert "parameters" in out
    assert "epoch   2/2, update 22: train loss" in out
    assert "held-out test set: " in out
    assert "exact_match" in out
    assert out.count(" → ") >= 3
    assert "try next:" in out
    assert Path("here/alignment.png").read_bytes().startswith(b"\x89PNG")
    assert Path("here/recipe.yaml").is_file()


def test_a_missed_figure_is_exit_status_1(saccade, tmp_path):
    recipe = tmp_path / "my.yaml"
    recipe.write_text(
        "task: translate\ndata: {source: dates, dates: {train: 40, valid: 5, test: 7, languages: [de]}}\n"
        "model: {name: rnnsearch, hidden: 5}\ntrain: {updates: 1}\n"
        "expect: {metric: exact_match, at_least: 0.99}\n"
    )
    status, out, _ = saccade("train", str(recipe))
    assert status == 1
    assert "expected exact_match at least 0.99: missed with 0.0000" in out


def test_own_pairs_train_from_every_format(saccade, tmp_path):
    rows = [(f"eins {number}", f"one {number}") for number in range(60)]
    Path("a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    Path("b.csv").write_text("source,target\n" + "".join(f"{source},{target}\n" for source, target in rows))
    lines = [json.dumps({"source": source, "target": target}) for source, target in rows]
    with gzip.open("c.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    for name in ("a.tsv", "b.csv", "c.jsonl.gz"):
        Path("my.yaml").write_text(
            f"task: translate\ndata: {{train: {name}}}\nmodel: {{name: luong, hidden: 6, embedding: 5}}\n"
            "train: {updates: 2, device: cpu}\n"
        )
        status, out, err = saccade("train", "my.yaml", "--out", f"run-{name}")
        assert status == 0, err
        assert "valid: 3 records held out of train" in out


def test_evaluate_prints_figures(saccade, run_folder):
    status, out, _ = saccade("evaluate", run_folder, "--metric", "exact_match", "--metric", "bleu")
    assert status == 0
    assert "exact_match" in out
    assert "nrefs:1" in out
    status, out, _ = saccade("evaluate", run_folder, "--json")
    assert set(json.loads(out)["figures"]) == {"exact_match", "cer", "perplexity"}


def test_predict_prints_one_output_a_line(saccade, run_folder):
    status, out, _ = saccade("predict", run_folder, "5. Mai 2009", "6. Mai 2009")
    assert status == 0
    assert len(out.splitlines()) == 2
    _, out, _ = saccade("predict", run_folder, "5. Mai 2009", "--json", "--n-best", "2")
    row = json.loads(out)
    assert row["input"] == "5. Mai 2009"
    assert len(row["alternatives"]) == 1


def test_predict_reads_lines_from_stdin(run_folder):
    command = [*EXECUTABLE, "predict", str(run_folder)]
    done = subprocess.run(command, input="5. Mai 2009\n6. Mai 2009\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "trace"])
def test_view_writes_every_kind_of_picture(saccade, run_folder, ending):
    status, _, err = saccade("view", run_folder, "5. Mai 2009", "--out", f"alignment.{ending}")
    assert status == 0, err
    assert Path(f"alignment.{ending}").stat().st_size > 1000


def test_view_draws_in_the_terminal(saccade, run_folder):
    status, out, _ = saccade("view", run_folder, "5. Mai 2009")
    assert status == 0
    assert len(out.splitlines()) > 5


def test_recipes_are_listed_with_their_figures(saccade):
    status, out, _ = saccade("recipes")
    assert status == 0
    assert "rnnsearch_dates" in out
    assert "[exact_match ≥ 0.995]" in out


def test_the_list_of_commands_cuts_no_sentence_short(saccade):
    status, out, _ = saccade("--help")
    assert status == 0 and "  view  " in out
    assert "..." not in out.partition("Commands:")[2]


FAULTS = {
    "missing file": (["train", "absent.yaml"], "absent.yaml"),
    "unknown recipe": (["train", "rnnsearch_datse"], "did you mean 'rnnsearch_dates'"),
    "bad key": (["train", "rnnsearch_dates", "model.hiden=3"], "model.hiden: expected one of"),
    "wrong type": (
        ["train", "rnnsearch_dates", "model.hidden=x"],
        "command line: model.hidden: expected a whole number",
    ),
    "no equals": (["train", "rnnsearch_dates", "model.hidden"], "expected key=value"),
    "unknown model": (["train", "rnnsearch_dates", "model.name=bert2"], "model.name: expected one of"),
    "nothing to train": (["train"], "expected a RECIPE or --resume RUN, found neither"),
    "no run": (["predict", "nowhere", "x"], "nowhere: expected a run's folder, found no such folder"),
    "no run to resume": (["train", "--resume", "nowhere"], "nowhere: expected a run's folder, found no such folder"),
    "changes to a resumed run": (
        ["train", "--resume", "nowhere", "train.epochs=2"],
        "--resume RUN, found both",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_exit_status_1(saccade, fault):
    words, message = FAULTS[fault]
    status, _, err = saccade(*words)
    assert status == 1
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


FILES = {
    "wrong column": (
        "a,b,c\n1,2,3\n",
        "my.csv:1: expected the columns 'source' and 'target', found the columns 'a', 'b', 'c'",
    ),
    "empty file": ("", "my.csv: expected at least one pair, found nothing"),
    "one-sided pair": ("source,target\nx,y\nonly,\n", "my.csv:3: target: expected text"),
    "unreadable bytes": (b"source,target\nx,\xff\xfe\n", "my.csv:2"),
}


@pytest.mark.parametrize("fault", FILES)
def test_a_faulty_file_is_named_with_its_line(saccade, fault):
    content, message = FILES[fault]
    Path("my.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    Path("my.yaml").write_text("task: translate\ndata: {train: my.csv}\nmodel: {name: luong}\n")
    status, _, err = saccade("train", "my.yaml")
    assert status == 1
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_model_without_attention_has_nothing_to_draw(saccade):
    small = [part for part in SMALL if not part.startswith("model")]
    saccade("train", "seq2seq_cho_dates", *small, "model.hidden=7", "train.updates=1", "--out", "plain")
    status, _, err = saccade("view", "plain", "5. Mai 2009")
    assert status == 1
    assert "seq2seq has no attention" in err


def test_ctrl_c_is_exit_status_130_and_the_run_can_be_resumed(tmp_path):
    small = [part for part in SMALL if not part.startswith("train.epochs")]
    command = [*EXECUTABLE, "train", "rnnsearch_dates", *small, "train.epochs=400", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "run").glob("checkpoints/update-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(2)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "everything is saved" in err
    assert f"saccade train --resume {tmp_path / 'run'}" in err
    assert os.listdir(tmp_path / "run" / "checkpoints")


def test_sigterm_while_the_data_is_read_ends_at_once_and_leaves_nothing(tmp_path):
    slow = (
        "import time, saccade.api.training as training, saccade.cli as cli\n"
        "training.read_splits = lambda *given: (print('reading', flush=True), time.sleep(60))\n"
        "cli.main()"
    )
    command = [sys.executable, "-c", slow, "train", "rnnsearch_dates", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "reading\n"
        process.send_signal(15)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and len(err.splitlines()) <= 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [["recipes"], ["--version"], ["runs", "RUN", "--json"], ["predict", "RUN", "5. Mai"]])
def test_a_full_stdout_is_one_line(run_folder, words):
    words = [str(run_folder) if word == "RUN" else word for word in words]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*EXECUTABLE, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: stdout: No space left on device\n")


def test_a_line_of_stdin_that_is_not_utf8_is_named(run_folder):
    text = "5. Mai 2009\nM\xe4rz\n".encode("latin-1")
    done = subprocess.run([*EXECUTABLE, "predict", str(run_folder)], input=text, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == "error: stdin, line 2: expected UTF-8 text, found the byte 0xe4"
