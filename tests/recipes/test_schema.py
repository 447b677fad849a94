"""Recipes are read by types, and what is wrong with one is said with its file, line and field."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from saccade.errors import InputError
from saccade.recipes.located import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    Located,
    locate,
    override,
    parse_override,
    read_yaml,
)
from saccade.recipes.schema import build, dump_yaml, to_plain


@dataclass(frozen=True)
class Model:
    name: str
    hidden: int = 35
    score: Literal["additive", "scaled_dot", "off"] = "additive"

    def __post_init__(self) -> None:
        if self.hidden <= 0:
            raise ValueError(f"hidden must be positive: got {self.hidden}")
        if self.name == "clash":
            raise ValueError("two settings\ndisagree")


@dataclass(frozen=True)
class Files:
    train: tuple[str, ...]
    folder: Path = Path("data")


@dataclass(frozen=True)
class Source:
    source: str
    size: int = 7


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True)
class Unread:
    model: Located
    extra: Located | None = None


@dataclass(frozen=True)
class Recipe:
    model: Model
    lr: float = 0.1
    seed: int = 3
    title: str = ""
    shuffle: bool = True
    patience: int | None = None
    layers: list[int] = field(default_factory=list)
    betas: tuple[float, int] = (0.9, 5)
    weights: dict[str, float] = field(default_factory=dict)
    data: str | Files | Source = "dates"
    limit: str | int | None = None
    extra: Any = None
    heads: tuple[Model, ...] = ()
    decay: Literal["cosine", "linear"] | None = None
    keep: Literal[1, 3, "5", "all"] = 1
    clip: int | float | bool = False
    table: dict[str, float] | Source | None = None


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "my.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fault(folder: Path, text: str | bytes, *overrides: str) -> str:
    """What is said against a recipe, without the folder it lies in."""
    with pytest.raises(InputError) as caught:
        build(Recipe, override(read_yaml(written(folder, text)), overrides))
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(folder) + os.sep, "")


def recipe(folder: Path, text: str, *overrides: str) -> Recipe:
    return build(Recipe, override(read_yaml(written(folder, "model: {name: rnn}\n" + text)), overrides))


def read(folder: Path, line: str) -> Any:
    """The value of the one field given by `line`."""
    return getattr(recipe(folder, line), line.split(":")[0])


def refused(folder: Path, line: str) -> str:
    """What is said against the one field given by `line`, which stands on line 2."""
    prefix = "my.yaml:2: "
    message = fault(folder, "model: {name: rnn}\n" + line)
    assert message.startswith(prefix)
    return message.removeprefix(prefix)


# ---- Reading


def test_every_value_knows_its_line_and_its_text(tmp_path: Path) -> None:
    path = written(tmp_path, "# a comment\nlr: 1_0\n\nmodel:\n  name: 'rnn'\n  sizes:\n  - 3\n  - 0x\n")
    root = read_yaml(path)
    where = str(path)
    sizes = Located([Located(3, where, 7, "3"), Located("0x", where, 8, "0x")], where, 6)
    model = Located({"name": Located("rnn", where, 5, "rnn"), "sizes": sizes}, where, 4)
    assert root == Located({"lr": Located(10, where, 2, "1_0"), "model": model}, where, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "my.yaml: expected a mapping, found an empty file"),
        ("# only a comment\n", "my.yaml: expected a mapping, found an empty file"),
        ("- a\n- b\n", "my.yaml:1: expected a mapping (key: value), found a list"),
        ("\njust words\n", "my.yaml:2: expected a mapping (key: value), found 'just words'"),
        (b"a: 1\nb: caf\xe9\n", "my.yaml:2: expected UTF-8 text, found the byte 0xe9 (save the file as UTF-8)"),
        ("a: 1\nb: \x07\n", "my.yaml:2: expected printable text, found the control character '\\x07'"),
        ("a: 3\nb: 5\na: 7\n", "my.yaml:3: expected each key once, found 'a' again after line 1"),
        ("a: {b: 3, c: 5, b: 7}\n", "my.yaml:1: expected each key once, found 'b' again after line 1"),
        ("a:\n\tb: 3\n", "my.yaml:2: expected spaces, found a tab at column 1"),
        ("a:\n  b: 3\n \tc: 5\n", "my.yaml:3: expected spaces, found a tab at column 2"),
        ("a: 3\n---\nb: 5\n", "my.yaml:2: expected one YAML document, found a second one"),
        ("a: 3\n7: 5\n", "my.yaml:2: expected text as a key, found '7' (put the key in quotes)"),
        ("a: 3\non: 5\n", "my.yaml:2: expected text as a key, found 'on' (put the key in quotes)"),
        ("[a, b]: 5\n", "my.yaml:1: expected text as a key, found a list"),
        ("a: *b\n", "my.yaml:1: expected an alias to a complete value, found 'b', which is not defined above"),
        ("a: &a\n- *a\n", "my.yaml:2: expected an alias to a complete value, found 'a' inside itself"),
        ("<<: 3\n", "my.yaml:1: <<: expected a mapping, or a list of mappings, to merge, found '3'"),
        ('a: 3\nb: "\\UFFFFFFFF"\n', "my.yaml:2: expected valid YAML, found a number out of range"),
        ("a" * (MAX_BYTES + 1), f"my.yaml: expected at most {MAX_BYTES:,} bytes of YAML, found more"),
    ],
)
def test_a_file_that_is_not_a_recipe_is_refused_with_the_reason(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    assert fault(tmp_path, text) == message


def test_a_syntax_error_names_line_and_column(tmp_path: Path) -> None:
    assert fault(tmp_path, "a: 3\nb: c: d\n") == (
        "my.yaml:2: expected valid YAML, found a syntax error at column 5: mapping values are not allowed here"
    )
    assert fault(tmp_path, "a: {b") == (
        "my.yaml:1: expected valid YAML, found a syntax error at column 6: "
        "expected ',' or '}', but got '<stream end>' while parsing a flow mapping"
    )
    assert fault(tmp_path, "a: [3,\n  5\nb: 7\n") == (
        "my.yaml:3: expected valid YAML, found a syntax error at column 2: "
        "expected ',' or ']', but got ':' while parsing a flow sequence that began on line 1"
    )


@pytest.mark.parametrize("tag", ["!secret", "!!python/object/apply:os.system", "!!str", "!<tag:example.org,2000:x>"])
def test_tags_are_refused(tmp_path: Path, tag: str) -> None:
    message = fault(tmp_path, f"a: 3\nb: {tag} [x]\n")
    assert message.startswith("my.yaml:2: expected a value without a tag, found the tag '")


def test_a_missing_file_a_folder_and_an_impossible_name_are_named(tmp_path: Path) -> None:
    paths = {
        tmp_path / "none.yaml": "no such file",
        tmp_path: "a directory",
        tmp_path / ("long" * 99): "an unreadable one: File name too long",
        tmp_path / "nul\0.yaml": "an unreadable one: embedded null byte",
    }
    for path, found in paths.items():
        with pytest.raises(InputError) as caught:
            read_yaml(path)
        assert str(caught.value) == f"{path}: expected a YAML file, found {found}"


def test_aliases_and_merge_keys_stand_for_what_they_name(tmp_path: Path) -> None:
    text = (
        "extra: &one {name: a, hidden: 3}\nlr: &rate 0.5\nweights: {x: *rate}\nheads:\n- *one\n- <<: *one\n  name: b\n"
    )
    assert recipe(tmp_path, text).heads == (Model("a", 3), Model("b", 3))
    assert recipe(tmp_path, text).weights == {"x": 0.5}
    two = "extra: [&one {name: a}, &two {name: b, hidden: 5}]\nheads: [{<<: [*one, *two]}]\n"
    assert recipe(tmp_path, two).heads == (Model("a", 5),)  # of two, the earlier wins
    assert recipe(tmp_path, "title: &t '<<'\nweights: {*t : 3}\n").weights == {"<<": 3.0}  # in quotes it is a key


def test_a_fault_in_an_alias_points_at_the_alias(tmp_path: Path) -> None:
    assert fault(tmp_path, "title: &t fast\nmodel: {name: a}\nlr: *t\n") == (
        "my.yaml:3: lr: expected a number, found 'fast'"
    )


def test_a_byte_order_mark_is_not_a_part_of_the_first_key(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "\ufefflr: 3\n")).value == {"lr": Located(3, str(tmp_path / "my.yaml"), 1, "3")}


# ---- Hostile files


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 10_000,
        "a: " + "[" * 10_000 + "]" * 10_000,
        "{a: " * 10_000,
        "- " * 10_000,
        "? " * 10_000,
        "".join(" " * depth + "a:\n" for depth in range(300)),
        # No line is deep, but what its aliases stand for is.
        "a0: &a0 " + "[" * 20 + "]" * 20 + "".join(f"\na{i}: &a{i} [*a{i - 1}]" for i in range(1, 300)),
    ],
)
def test_nesting_without_end_is_refused(tmp_path: Path, text: str) -> None:
    assert f"expected at most {MAX_DEPTH} levels of nesting, found more" in fault(tmp_path, text)


def test_aliases_that_would_unfold_to_billions_of_values_are_refused_at_once(tmp_path: Path) -> None:
    lines = ["a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    for name, below in zip("bcdefghijk", "abcdefghij", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]")
    start = time.perf_counter()
    message = fault(tmp_path, "\n".join(lines))
    assert message == f"my.yaml:5: expected at most {MAX_VALUES:,} values with every alias written out, found more"
    assert time.perf_counter() - start < 2


def test_keys_and_values_of_any_length_leave_a_short_message(tmp_path: Path) -> None:
    assert len(fault(tmp_path, f"model: {{name: a}}\nlr: {'x' * 9999}\n")) < 200
    assert len(fault(tmp_path, f"model: {{name: a}}\n? {'x' * 9999}\n: 3\n")) < 400
    assert "'a\\nb'" in fault(tmp_path, 'model: {name: a}\n"a\\nb": 3\n')
    assert "found '9999" in fault(tmp_path, f"model: {{name: a}}\nseed: {'9' * 9999}\n")


# ---- Overriding


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("model.hidden=128", ["model", "hidden"], 128),
        ("lr=1e-3", ["lr"], 0.001),
        ("title=", ["title"], None),
        ("title=a=b", ["title"], "a=b"),
        ("title=*.txt", ["title"], "*.txt"),
        ("title=a: b # c", ["title"], "a: b # c"),
        ("shuffle=off", ["shuffle"], False),
        ("title='007'", ["title"], "007"),
    ],
)
def test_an_override_is_a_key_and_a_scalar(text: str, keys: list[str], value: object) -> None:
    found, node = parse_override(text)
    assert (found, node.value, node.where, node.line) == (keys, value, "command line", None)
    assert node.text == text.partition("=")[2].strip("'")


def test_an_override_may_be_a_list(tmp_path: Path) -> None:
    made = recipe(tmp_path, "", "layers=[3, 5, 7]", "heads=[{name: a}, {name: b, hidden: 5}]")
    assert made.layers == [3, 5, 7]
    assert made.heads == (Model("a"), Model("b", 5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden", "expected key=value, such as model.hidden=128, found 'hidden'"),
        ("=3", "expected key=value, such as model.hidden=128, found an empty key in '=3'"),
        ("model..hidden=3", "expected key=value, such as model.hidden=128, found an empty key in 'model..hidden=3'"),
        ("a.b=[3, 5", "a.b: expected valid YAML, found a syntax error at column 6: expected ',' or ']', but got"),
        ("a.b='3' 5", "a.b: expected valid YAML, found a syntax error at column 5: expected '<document start>'"),
        ("a={b: 3, b: 5}", "a: expected each key once, found 'b' again"),
        ("a\nb.c=[3", "'a\\nb'.c: expected valid YAML, found a syntax error"),
        ("a=" + "[" * 10_000, f"a: expected at most {MAX_DEPTH} levels of nesting, found more"),
        (".".join("a" * 9999) + "=3", f"expected at most {MAX_DEPTH} levels of nesting, found 9999"),
    ],
)
def test_an_override_that_cannot_be_read_says_so(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_override(text)
    assert str(caught.value).startswith(f"command line: {message}")
    assert " line " not in str(caught.value).removeprefix("command line: ")


def test_overrides_make_a_new_tree_and_the_last_one_wins(tmp_path: Path) -> None:
    root = read_yaml(written(tmp_path, "model:\n  name: rnn\nweights:\n"))
    before = repr(root)
    made = build(Recipe, override(root, ["model.hidden=5", "model.hidden=7", "weights.a=3", "data.source=numbers"]))
    assert (made.model, made.weights, made.data) == (Model("rnn", 7), {"a": 3.0}, Source("numbers"))
    assert repr(root) == before


def test_nothing_can_be_set_inside_a_scalar_or_a_list(tmp_path: Path) -> None:
    text = "model:\n  name: rnn\nlayers: [3]\n"
    assert fault(tmp_path, text, "model.name.x.y=3") == (
        "command line: model.name.x.y: expected a mapping in model.name, found 'rnn' from my.yaml:2"
    )
    assert fault(tmp_path, text, "layers.0=5").endswith("expected a mapping in layers, found a list from my.yaml:3")
    assert fault(tmp_path, text, "lr=3", "lr.x=5").endswith("expected a mapping in lr, found '3' from command line")
    with pytest.raises(InputError, match=r"command line: a: expected a mapping in the root, found '3' from here$"):
        override(Located(3, "here"), ["a=5"])


def test_a_bad_override_is_laid_to_the_command_line(tmp_path: Path) -> None:
    text = "model:\n  name: rnn\n  hidden: 3\n"
    assert fault(tmp_path, text, "model.hidden=12x") == (
        "command line: model.hidden: expected a whole number, found '12x'"
    )
    assert fault(tmp_path, text, "model.hidden=-3") == (
        "command line: model.hidden: expected hidden to be positive, found -3"
    )
    assert fault(tmp_path, text, "model.hiden=5").startswith("command line: model.hiden: expected one of name, hidden")


# ---- Building


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("seed: 1_000", 1000),
        ("seed: 1e3", 1000),
        ("seed: 5.0", 5),
        ("seed: -7", -7),
        ("seed: 010", 10),
        ("seed: 123456789012345678901", 123456789012345678901),
        ("lr: 1e-3", 0.001),
        ("lr: 3", 3.0),
        ("lr: .5", 0.5),
        ("lr: 1_0.5E+2", 1050.0),
        ("shuffle: false", False),
        ("shuffle: yes", True),
        ("shuffle: Off", False),
        ("title: 007", "007"),
        ("title: 1_000", "1_000"),
        ("title: 2024-01-31", "2024-01-31"),
        ("title: no", "no"),
        ("title: 1.10", "1.10"),
        ("title: 'null'", "null"),
        ("title: ''", ""),
        ("patience: null", None),
        ("patience:", None),
        ("patience: 5", 5),
        ("layers: [3, 5]", [3, 5]),
        ("layers: []", []),
        ("betas: [1, 2]", (1.0, 2)),
        ("weights: {a: 1e-1, '7': 2}", {"a": 0.1, "7": 2.0}),
        ("data: numbers", "numbers"),
        ("data: {train: [a, 7], folder: 2024}", Files(("a", "7"), Path("2024"))),
        ("data: {source: dates, size: 5}", Source("dates", 5)),
        ("limit: 5", 5),
        ("limit: '5'", "5"),
        ("limit: five", "five"),
        ("limit: ~", None),
        ("extra: {a: [1e-3, yes, x, ~]}", {"a": [0.001, True, "x", None]}),
        ("heads: [{name: a, score: off}]", (Model("a", score="off"),)),
        ("decay: linear", "linear"),
        ("decay: null", None),
        ("clip: on", True),
        ("clip: 3", 3),
        ("clip: 3.0", 3.0),
        ("table: {source: 3}", {"source": 3.0}),
        ("table: {source: a}", Source("a")),
        ("keep: 3", 3),
        ("keep: 5", "5"),
        ("keep: all", "all"),
    ],
)
def test_a_value_is_read_by_its_fields_type(tmp_path: Path, line: str, value: object) -> None:
    found = read(tmp_path, line)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lr: fast", "lr: expected a number, found 'fast'"),
        ("lr: '0.5'", "lr: expected a number, found '0.5' (without quotes)"),
        ("lr: true", "lr: expected a number, found 'true'"),
        ("lr: .nan", "lr: expected a finite number, found '.nan'"),
        ("lr: -.inf", "lr: expected a finite number, found '-.inf'"),
        ("lr: 1e999", "lr: expected a finite number, found '1e999'"),
        ("lr: inf", "lr: expected a number, found 'inf'"),
        ("lr:", "lr: expected a number, found nothing"),
        ("lr: [3]", "lr: expected a number, found a list"),
        ("seed: 1.5", "seed: expected a whole number, found '1.5'"),
        ("seed: 1e23", "seed: expected a whole number, found '1e23'"),
        ("seed: true", "seed: expected a whole number, found 'true'"),
        ("seed: 12x", "seed: expected a whole number, found '12x'"),
        ("seed: 1__0", "seed: expected a whole number, found '1__0'"),
        ("seed: '3'", "seed: expected a whole number, found '3' (without quotes)"),
        ("shuffle: 1", "shuffle: expected true or false, found '1'"),
        ("shuffle: tRUE", "shuffle: expected true or false, found 'tRUE'"),
        ("shuffle: maybe", "shuffle: expected true or false, found 'maybe'"),
        ("title: null", "title: expected text, found null"),
        ("title: {a: 3}", "title: expected text, found a mapping"),
        ("patience: soon", "patience: expected a whole number, found 'soon'"),
        ("layers: 3", "layers: expected a list of whole numbers, found '3' (write [3])"),
        ("layers:", "layers: expected a list of whole numbers, found nothing"),
        ("layers: {a: 3}", "layers: expected a list of whole numbers, found a mapping"),
        (f"layers: {'x' * 50}", f"layers: expected a list of whole numbers, found '{'x' * 50}'"),
        ("layers: [3, x]", "layers[1]: expected a whole number, found 'x'"),
        ("betas: [3]", "betas: expected a list of 2 items (a number, a whole number), found 1 items"),
        ("weights: [3]", "weights: expected a mapping from names to numbers, found a list"),
        ("weights: {a: x}", "weights.a: expected a number, found 'x'"),
        ("data: {train: a.txt}", "data.train: expected a list of texts, found 'a.txt' (write [a.txt])"),
        ("data: {source: a, size: x}", "data.size: expected a whole number, found 'x'"),
        (
            "data: [a]",
            "data: expected text or a mapping with train, folder or a mapping with source, size, found a list",
        ),
        ("limit: [3]", "limit: expected text or a whole number or null, found a list"),
        ("extra: [.inf]", "extra[0]: expected a finite number, found '.inf'"),
        (
            "heads: a",
            "heads: expected a list of values, each a mapping with name, hidden, score, found 'a' (write [a])",
        ),
        ("heads: [a]", "heads[0]: expected a mapping with name, hidden, score, found 'a'"),
        (
            "heads: [{name: a, score: of}]",
            "heads[0].score: expected one of 'additive', 'scaled_dot', 'off', found 'of' (did you mean 'off'?)",
        ),
        ("clip: x", "clip: expected a whole number or a number or true or false, found 'x'"),
        ("keep: true", "keep: expected one of 1, 3, '5', 'all', found 'true'"),
        ("keep: '3'", "keep: expected one of 1, 3, '5', 'all', found '3'"),
        ("keep: [3]", "keep: expected one of 1, 3, '5', 'all', found a list"),
        ("decay: cosin", "decay: expected one of 'cosine', 'linear', found 'cosin' (did you mean 'cosine'?)"),
    ],
)
def test_a_value_of_another_kind_is_refused_in_plain_words(tmp_path: Path, line: str, message: str) -> None:
    assert refused(tmp_path, line) == message


def test_a_scalar_on_a_line_of_its_own_is_found_there(tmp_path: Path) -> None:
    assert fault(tmp_path, "model: {name: rnn}\nlr:\n  fast\n") == "my.yaml:3: lr: expected a number, found 'fast'"


def test_an_unknown_field_is_named_with_those_that_exist_and_the_nearest(tmp_path: Path) -> None:
    assert fault(tmp_path, "lr: 3\nmodel:\n  name: rnn\n\n  hiden: 5\n") == (
        "my.yaml:5: model.hiden: expected one of name, hidden, score, found 'hiden' (did you mean 'hidden'?)"
    )
    assert fault(tmp_path, "model: {name: rnn, zzz: 5}\n").endswith("found 'zzz'")
    with pytest.raises(InputError, match="here: a: expected no fields, found 'a'"):
        build(Empty, locate({"a": 3}, "here"))
    with pytest.raises(InputError, match="here: expected a mapping with no fields, found '3'"):
        build(Empty, locate(3, "here"))
    assert fault(tmp_path, "lr: 3\nmodle:\n  name: rnn\n").startswith("my.yaml:2: modle: expected one of model, lr")


def test_a_missing_field_is_named_with_its_type(tmp_path: Path) -> None:
    assert fault(tmp_path, "lr: 3\nmodel:\n  hidden: 5\n") == (
        "my.yaml:2: model.name: expected text, found nothing (this field is required)"
    )
    assert fault(tmp_path, "lr: 3\n") == (
        "my.yaml:1: model: expected a mapping with name, hidden, score, found nothing (this field is required)"
    )


def test_a_value_that_a_dataclass_refuses_is_reported_at_the_line_of_the_field(tmp_path: Path) -> None:
    assert fault(tmp_path, "lr: 3\nmodel:\n  name: rnn\n  hidden: -3\n") == (
        "my.yaml:4: model.hidden: expected hidden to be positive, found -3"
    )
    assert fault(tmp_path, "lr: 3\nmodel:\n  hidden: 5\n  name: clash\n") == (
        "my.yaml:2: model: expected a valid Model, found two settings disagree"
    )


def test_a_mapping_may_stand_under_a_name_of_its_own() -> None:
    with pytest.raises(InputError, match=r"^config\.json: model\.hidden: expected a whole number, found 'x'$"):
        build(Model, locate({"name": "rnn", "hidden": "x"}, "config.json"), "model")


def test_a_field_may_keep_its_value_unread_for_a_later_build(tmp_path: Path) -> None:
    made = build(Unread, read_yaml(written(tmp_path, "model: {name: rnn, hidden: 5}\nextra: [3]\n")))
    assert build(Model, made.model, "model") == Model("rnn", 5)
    assert to_plain(made) == {"model": {"name": "rnn", "hidden": 5}, "extra": [3]}
    with pytest.raises(InputError, match="here: model: expected a value, found nothing"):
        build(Unread, locate({}, "here"))


@dataclass(frozen=True)
class Odd:
    raw: bytes | None = None
    numbered: dict[int, str] = field(default_factory=dict)


@pytest.mark.parametrize("plain", [{"raw": "x"}, {"numbered": {"3": "x"}}])
def test_a_type_that_yaml_cannot_hold_is_the_programmers_fault(plain: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="must have a type that YAML can hold"):
        build(Odd, locate(plain, "here"))


# ---- Writing


FULL = Recipe(
    model=Model("1e3", 5, "off"),
    lr=1e-05,
    title="yes",
    patience=7,
    layers=[3, 5],
    betas=(1e16, 3),
    weights={"<<": 0.1, "7": 2.0, "on": 1e-300, "": 3.0, "x" * 200: 5.0},
    data=Files(("a b", "- c", "#d", "*e", "null"), Path("a/b")),
    limit="12",
    extra={"a": [0.001, True, "0.5", "1e3", None, {"b": "1_0"}]},
    heads=(Model("a\nb"), Model("é\u2028\x00\U0001f441", 3)),
    decay="linear",
)


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    plain = to_plain(FULL)
    assert build(Recipe, locate(plain, "here")) == FULL
    assert build(Recipe, read_yaml(written(tmp_path, dump_yaml(plain)))) == FULL


def test_any_text_survives_writing_and_reading(tmp_path: Path) -> None:
    chance = random.Random(7)
    pieces = [*"1e_.-+ :#'\"\n\t~&*[]{}é%!?|>", "no", "null", "---"]
    texts = ["".join(chance.choices(pieces, k=chance.randint(0, 5))) for _ in range(500)]
    made = Texts([*texts], dict.fromkeys(texts, 3))
    assert build(Texts, read_yaml(written(tmp_path, dump_yaml(to_plain(made))))) == made


@dataclass(frozen=True)
class Texts:
    texts: list[int | float | bool | str | None]  # the type that would take a text for something else
    keys: dict[str, int]


def test_written_recipes_keep_their_order_and_stay_readable() -> None:
    assert dump_yaml(to_plain(Recipe(Model("rnn"), layers=[3, 5], data=Source("dates")))).splitlines()[:9] == [
        "model:",
        "  name: rnn",
        "  hidden: 35",
        "  score: additive",
        "lr: 0.1",
        "seed: 3",
        "title: ''",
        "shuffle: true",
        "patience: null",
    ]
    assert dump_yaml({"layers": [3, 5], "again": [3, 5]}) == "layers: [3, 5]\nagain: [3, 5]\n"


def test_what_could_not_be_read_back_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"Recipe\.lr must be finite to be written: got inf"):
        to_plain(Recipe(Model("rnn"), lr=float("inf")))
    with pytest.raises(TypeError, match=r"Recipe\.extra\[1\] must be something that YAML can hold: got b'x'"):
        to_plain(Recipe(Model("rnn"), extra=[3, b"x"]))
    with pytest.raises(InputError, match=r"arguments: extra\[1\]: expected text, a number, .* found a bytes"):
        locate({"extra": [3, b"x"]}, "arguments")
    with pytest.raises(InputError, match=r"^arguments: expected text"):
        locate(b"x", "arguments")
    with pytest.raises(InputError, match=r"extra: expected .* found a mapping with other keys"):
        locate({"extra": {3: 5}}, "arguments")


def test_reading_recipes_loads_nothing_heavy() -> None:
    code = "import sys, saccade.recipes.schema; print({'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"
