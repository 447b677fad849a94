"""``saccade predict``, ``view`` and ``evaluate`` with everything that steers a search."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from saccade import api
from saccade.cli.options import lines
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe
from saccade.trace import Trace

TEXT = "der hund ist rot"
RECIPE = """
task: translate
data: {train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, tokens: {kind: words, min_count: 2}}
model: {name: rnnsearch, hidden: 7, embedding: 5, maxout: 3}
train: {updates: 2, device: cpu}
search: {beam: 3, coverage: 0.1, length_penalty: 0.6}
metrics: [perplexity]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one recipe and one without attention."""
    home = tmp_path_factory.mktemp("home")
    animals, colours = ("hund dog", "katze cat", "maus mouse"), ("rot red", "alt old", "neu new")
    rows = [
        (f"der {a.split()[0]} ist {c.split()[0]}", f"the {a.split()[1]} is {c.split()[1]}")
        for a in animals
        for c in colours
    ]
    (home / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows * 3))
    (home / "my.yaml").write_text(RECIPE)
    api.train(read_recipe(home / "my.yaml"), folder=home / "one")
    api.train(read_recipe(home / "my.yaml", ["train.seed=2"]), folder=home / "two")
    plain = RECIPE.replace("rnnsearch", "seq2seq").replace("coverage: 0.1, ", "")
    (home / "plain.yaml").write_text(plain)
    api.train(read_recipe(home / "plain.yaml"), folder=home / "plain")
    headed = RECIPE.replace(
        "rnnsearch, hidden: 7, embedding: 5, maxout: 3", "transformer, width: 6, heads: 3, layers: 2"
    )
    (home / "headed.yaml").write_text(headed)
    api.train(read_recipe(home / "headed.yaml"), folder=home / "headed")
    return home


@pytest.fixture
def saccade(command, monkeypatch, runs):
    """Runs the command in this process, beside the runs: (exit status, stdout, stderr)."""
    monkeypatch.chdir(runs)
    return command


def outputs(saccade, *words: str) -> list[str]:
    status, out, err = saccade("predict", "one", TEXT, *words)
    assert status == 0, err
    return out.splitlines()


def test_wishes_steer_outputs(saccade) -> None:
    assert outputs(saccade, "--prefix", "the cat")[0].startswith("the cat")
    [both] = outputs(saccade, "--require", "mouse", "--require", "is old")
    assert "mouse" in both.split() and "is old" in both
    [found] = outputs(saccade, "--forbid", "the", "--forbid", "is")
    assert not {"the", "is"} & set(found.split())


def test_json_shows_what_a_score_is_made_of(saccade) -> None:
    [line] = outputs(saccade, "--json", "--n-best", "2", "--beam", "4", "--coverage", "0.5")
    row = json.loads(line)
    assert len(row["alternatives"]) == 1
    for each in (row, *row["alternatives"]):
        parts = each["parts"]
        assert each["score"] == pytest.approx(parts["log_prob"] / parts["length_penalty"] + parts["coverage"])
        assert parts["length_penalty"] > 1  # α is the recipe's own
        assert {"output", "stopped", "notes", "log_prob"} <= set(each)


def test_a_recipes_own_list_is_as_long_as_it_says(saccade, runs) -> None:
    text = RECIPE.replace("beam: 3", "beam: 3, n_best: 2")
    (runs / "several.yaml").write_text(text)
    api.train(read_recipe(runs / "several.yaml"), folder=runs / "several")

    def found(*words: str) -> list[str]:
        status, out, err = saccade("predict", "several", TEXT, *words)
        assert status == 0, err
        return out.splitlines()

    assert found() == found("--n-best", "2") and len(found()) == 2
    [line] = found("--json")
    assert [line] == found("--json", "--n-best", "2") and len(json.loads(line)["alternatives"]) == 1
    assert len(found("--n-best", "1")) == 1 and len(found("--n-best", "3")) == 3
    assert len(found("--beam", "1")) == 1  # a beam that is asked for and holds fewer
    assert len(found("--sample", "--seed", "3")) == 2


def test_a_seed_repeats_samples_and_n_best_says_how_many(saccade) -> None:
    options = ("--sample", "--temperature", "2", "--top-k", "9", "--top-p", "0.99", "--n-best", "4", "--seed")
    first = outputs(saccade, *options, "3")
    assert len(first) == 4
    assert outputs(saccade, *options, "3") == first
    assert outputs(saccade, *options, "4") != first


def test_groups_widen_the_beam_to_a_multiple(saccade) -> None:
    found = outputs(saccade, "--groups", "2", "--diversity", "9", "--n-best", "3")
    assert 2 <= len({line.split("\t")[1] for line in found}) == len(found)


def test_no_n_gram_comes_twice(saccade) -> None:
    [found] = outputs(saccade, "--block-ngrams", "1")
    assert len(set(found.split())) == len(found.split())


def test_runs_are_averaged_and_viewed_together(saccade) -> None:
    [alone] = outputs(saccade, "--json")
    [both] = outputs(saccade, "--with", "two", "--json")
    assert json.loads(alone)["log_prob"] != json.loads(both)["log_prob"]
    status, out, _ = saccade("view", "one", TEXT, "--with", "two", "--prefix", "the cat")
    assert status == 0
    assert "1/decoder.attention" in out and "2/decoder.attention" in out
    assert "the cat" in out
    figures = []
    for words in ((), ("--with", "two")):
        status, out, err = saccade("evaluate", "one", *words, "--beam", "2", "--json")
        assert status == 0, err
        figures.append(json.loads(out)["figures"]["perplexity"])
    assert figures[0] != figures[1]


def test_one_site_and_one_head_are_viewed_alone(saccade, runs) -> None:
    chosen = ("view", "headed", TEXT, "--site", "decoder.1.cross", "--head", "2")
    status, out, err = saccade(*chosen)
    assert status == 0, err
    assert "decoder.1.cross · head 2" in out
    assert "head 1" not in out and "encoder" not in out
    assert "--site SITE [--head N]" not in out
    assert saccade(*chosen, "--out", "one.svg")[0] == 0
    drawn = Path("one.svg").read_text()
    assert "transformer · decoder.1.cross · head 2" in drawn and f"{TEXT} → " in drawn
    assert saccade(*chosen, "--out", "one.trace")[0] == 0
    assert len(Trace.load("one.trace").maps) == 1


def test_the_mean_of_many_heads_says_what_there_is_to_choose_from(saccade) -> None:
    status, out, err = saccade("view", "headed", TEXT)
    assert status == 0, err
    assert "--site SITE [--head N]; there are encoder.0.self (3 heads), encoder.1.self (3 heads)" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--site", "middle"),
            "site: expected one of encoder.0.self, encoder.1.self, decoder.0.self, decoder.0.cross, ",
        ),
        (("--site", "decoder.0.cross", "--head", "7"), "head: expected one of 0, 1, 2 at decoder.0.cross, found 7"),
        (("--head", "-1"), "head: expected one of 0, 1, 2, found -1"),
    ],
)
def test_a_site_or_head_that_is_not_there_is_one_line_with_what_is(saccade, words, message) -> None:
    status, out, err = saccade("view", "headed", TEXT, *words)
    assert (status, out) == (1, "")
    errors = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert len(errors) == 1 and message in errors[0]


def test_a_loaded_run_prints_as_one_short_line(runs) -> None:
    told = repr(api.load(runs / "one"))
    assert told.startswith("Bundle(my: translate by rnnsearch, ")
    assert "perplexity" in told and "\n" not in told and len(told) < 200 + len(str(runs))


def test_a_dictionary_asks_for_copies(saccade, runs) -> None:
    (runs / "words.tsv").write_text("zebra\tzèbre\nzebra\tother\n")
    words = ("der zebra ist zebra", "--prefix", "the", "--dictionary", "words.tsv", "--json")
    status, out, err = saccade("predict", "one", *words)
    assert status == 0, err
    row = json.loads(out)
    assert ("zèbre" in row["output"]) == any("zèbre" in note for note in row["notes"])
    assert "other" not in row["output"]


FAULTS = {
    "samples without sampling": (["--temperature", "2"], "--temperature needs --sample"),
    "samples in a beam": (["--sample", "--beam", "4"], "beam must be 1 when sampling"),
    "samples in groups": (["--sample", "--groups", "2"], "diverse must be left out when sampling: got 2 groups"),
    "diversity of one group": (["--diversity", "2"], "--diversity needs --groups of 2 or more"),
    "groups that do not fit": (["--groups", "2", "--beam", "5"], "beam must be a multiple of its 2 groups: got 5"),
    "too many": (["--n-best", "4", "--beam", "3"], "n_best must be between 1 and beam=3: got 4"),
    "top-p": (["--sample", "--top-p", "1.5"], "top_p must be above 0 and at most 1: got 1.5"),
    "required samples": (["--sample", "--require", "dog"], "required words must be searched for with a plain beam"),
    "unknown word": (["--require", "zebra"], "require: expected words of the target's vocabulary, found 'zebra'"),
    "contradiction": (["--require", "dog", "--forbid", "dog"], "found 'dog', which is in require"),
    "keep and dictionary": (["--dictionary", "x.tsv", "--unknown", "keep"], "--unknown keep"),
    "no dictionary": (["--dictionary", "nowhere.tsv"], "nowhere.tsv"),
    "no other run": (["--with", "nowhere"], "nowhere: expected a run's folder, found no such folder"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_exit_status_1(saccade, fault) -> None:
    words, message = FAULTS[fault]
    status, _, err = saccade("predict", "one", TEXT, *words)
    assert status == 1
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_network_without_attention_cannot_cover_or_copy(saccade) -> None:
    for words in (("--coverage", "0.2"), ("--unknown", "copy")):
        status, _, err = saccade("predict", "plain", TEXT, *words)
        assert status == 1
        assert "needs a network with attention on its source: Seq2Seq has none" in err


def test_help_lists_options_in_groups(saccade) -> None:
    for command, groups in (
        ("predict", ("Search:", "Sampling:", "Diverse beams:", "Constraints:")),
        ("evaluate", ("Search:",)),
    ):
        status, out, _ = saccade(command, "--help")
        assert status == 0
        places = [out.index(f"\n{group}\n") for group in ("Arguments:", *groups, "Options:")]
        assert places == sorted(places)
    assert "--require" not in out


def test_a_recipe_takes_every_field_and_names_the_line_of_a_wrong_one(runs) -> None:
    text = RECIPE.replace(
        "search: {beam: 3, coverage: 0.1, length_penalty: 0.6}",
        "search:\n  sample: {temperature: 0.8, top_p: 0.9, top_k: 5, seed: 3}\n  n_best: 2\n  unknown: copy\n  stop: beam",
    )
    path = Path(runs / "search.yaml")
    path.write_text(text)
    search = read_recipe(path).search
    assert (search.sample.temperature, search.sample.seed, search.n_best, search.stop) == (0.8, 3, 2, "beam")
    assert (
        read_recipe(path, ["search.sample=null", "search.beam=4", "search.diverse.groups=2"]).search.diverse.groups == 2
    )
    for override, message in (
        ("search.sample.top_p=0", r"search.sample.top_p: expected top_p to be above 0"),
        ("search.beam=2", r"search.beam: expected beam to be 1 when sampling"),
        ("search.stop=never", r"search.stop: expected one of 'exact', 'beam'"),
        ("search.coverage=-1", r"search.coverage: expected coverage to not be negative"),
    ):
        with pytest.raises(InputError, match=message):
            read_recipe(path, [override])


def test_one_input_that_cannot_be_read_costs_only_its_own_line(saccade, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{TEXT}\n\n{TEXT}\n"))
    status, out, err = saccade("predict", "one")
    lines = out.split("\n")
    assert (status, len(lines), lines[1]) == (1, 4, "")
    assert lines[0] == lines[2] != ""
    assert "error: stdin, line 2: expected a text, found nothing" in err
    assert saccade("predict", "one", " ", "--json")[:2] == (1, "")


def test_a_byte_order_mark_before_the_first_line_is_not_a_part_of_it(monkeypatch) -> None:
    class Piped:
        buffer = io.BytesIO(b"\xef\xbb\xbfone\r\n\xef\xbb\xbftwo\n")

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Piped())
    assert lines() == ["one", "\ufefftwo"]
