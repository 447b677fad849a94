"""Bundles and traces as a stranger could send them: small true ones, changed at random, with checksums that fit again."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import saccade
from saccade import bundle_format, storage
from saccade.api.bundle import Bundle
from saccade.api.prepare import prepare, read_splits
from saccade.api.runs import describe, find_runs
from saccade.data.splits import fingerprint
from saccade.errors import SaccadeError
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml
from saccade.tasks.calibration import Calibration
from saccade.trace.axes import Frames, Grid, Nodes, Reviews, Sentences, Tokens, Visits
from saccade.trace.file import same
from saccade.trace.lens import DETAILS, Lens
from saccade.trace.maps import AttentionMap, Signal, Trace
from saccade.views.html.page import page
from saccade.views.terminal.show import render

COPIES = "data.copies={train: 60, valid: 5, test: 7, shortest: 2, longest: 5, words: 9}"
RUN = ("train.updates=2", "train.device=cpu", "train.threads=1")
# name → shipped recipe, overrides, an input
BUNDLES: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "rnnsearch": (
        "rnnsearch_dates",
        (
            "data.dates={train: 60, valid: 5, test: 7, languages: [de]}",
            "model.hidden=5",
            "model.embedding=3",
            "model.maxout=3",
            "data.max_length=15",
            "data.too_long=truncate",
        ),
        "5. Mai 2009",
    ),
    "luong, subwords": (
        "luong_dates",
        (
            "data={source: copies, tokens: {kind: bpe, size: 40}, target_tokens: {kind: unigram, size: 40}}",
            COPIES,
            "model.hidden=6",
            "model.embedding=3",
            "search={beam: 3, n_best: 2}",
            "data.max_length=15",
            "data.too_long=truncate",
        ),
        "w1 w2",
    ),
    "transformer, shared pieces": (
        "transformer_dates",
        (
            "data={source: copies, tokens: {kind: wordpiece, size: 60}, shared: true, max_length: 15, too_long: truncate}",
            COPIES,
            "model={name: transformer, width: 8, heads: 2, hidden: 12, layers: 2}",
        ),
        "w1 w2",
    ),
    "pointer": (
        "pointer_sorting",
        ("data={source: sorting, train: 50, valid: 5, test: 7, least: 3, most: 5}", "model.hidden=5"),
        [[0.3], [0.1], [0.7]],
    ),
    "attentive_classifier, calibrated": (
        "attentive_opinions",
        ("data.opinions={train: 60, valid: 15, test: 7}", "model.hidden=3", "model.embedding=5"),
        "the food was good",
    ),
    "han": (
        "han_needles",
        ("data.needles={train: 60, valid: 15, test: 7}", "model.hidden=3", "model.embedding=5"),
        "One thing . Another thing !",
    ),
    "atae_lstm": (
        "atae_aspects",
        ("data.contrasts={train: 60, valid: 15, test: 7}", "model.hidden=3", "model.embedding=5"),
        ("the food was good", "food"),
    ),
    "bert": (
        "bert_topics",
        (
            "data.topics={train: 40, valid: 5, test: 7}",
            "data.tokens.size=80",
            "model={name: bert, layers: 1, width: 8, heads: 2, feed_forward: 12, positions: 64}",
        ),
        "the [MASK] is",
    ),
    "siamese": (
        "siamese_facts",
        ("data.facts={train: 40, valid: 5, test: 7}", "model.hidden=3", "model.embedding=5"),
        {"question": "who is anna", "candidates": ["anna is a baker", "he sings"]},
    ),
    "skipgram": (
        "skipgram_topics",
        ("data.topics={train: 40, valid: 5, test: 7}", "data.tokens={size: 90}", "model.embedding=3"),
        "the",
    ),
    "tagger": (
        "tagger_repeats",
        ("data.repeats={train: 40, valid: 5, test: 7}", "model.hidden=6", "model.embedding=5", "model.characters=lstm"),
        "w1 w2 w1",
    ),
    "transformer_tagger": (
        "transformer_repeats",
        ("data.repeats={train: 40, valid: 5, test: 7}", "model.width=8", "model.heads=2", "model.hidden=12"),
        "w1 w2 w1",
    ),
    "recurrent_lm": (
        "lstm_language_agreement",
        ("data.agreement={train: 60, valid: 5, test: 7}", "model.hidden=6", "model.embedding=5"),
        "the author",
    ),
    "lstmn_lm": (
        "lstmn_language_agreement",
        ("data.agreement={train: 60, valid: 5, test: 7}", "model.hidden=6", "model.embedding=5"),
        "the author",
    ),
    "retain": (
        "retain_visits",
        ("data.visits={train: 60, valid: 20, test: 20}", "model.embedding=3", "model.alpha=3", "model.beta=3"),
        {"visits": [{"time": "2020-01-01", "codes": ["c1", "c2"]}, {"time": "2020-03-01", "codes": ["c3"]}]},
    ),
}


def make_bundle(name: str, folder: Path) -> None:
    """A run's folder with the bundle of an untrained network, and what a run keeps beside it."""
    recipe_name, overrides, _ = BUNDLES[name]
    recipe = read_recipe(recipe_name, [*overrides, *RUN])
    splits = read_splits(recipe, None)
    prepared = prepare(recipe, splits)
    prepared.network.eval()
    figures = {
        "valid": {"loss": 1.5},
        "test": {"accuracy": 0.5},
        "updates": 2,
        "seconds": 1.5,
        "signatures": {"a": "b"},
    }
    if "calibrated" in name:
        prepared.task.calibration = Calibration(
            1.5, 9, "valid", {"valid": {"before": {"ece": 0.2}, "after": {"ece": 0.1}}}
        )
    Bundle(recipe, prepared.task, prepared.network, folder=folder, figures=figures).save(folder)
    about = {
        "name": recipe.name,
        "folder": str(folder),
        "data": fingerprint(splits),
        "changed": ["train.updates"],
        "began": storage.now(),
    }
    about |= {
        "records": {"train": 60},
        "watch": "loss",
        "task": recipe.task,
        "model": recipe.model_name,
        "parameters": 3,
    }
    (folder / "run.json").write_text(json.dumps(about))
    status = {
        "state": "done",
        "at": storage.now(),
        "best": {"metric": "loss", "figure": 1.5, "higher_is_better": False},
    }
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "metrics.json").write_text(json.dumps(figures))
    (folder / "recipe.yaml").write_text(dump_yaml(recipe.to_plain()))


def make_traces(bundles: Path, folder: Path, names: Sequence[str] = tuple(BUNDLES)) -> list[Path]:
    """One trace of each bundle, and some over every other kind of axis and map."""
    folder.mkdir(parents=True, exist_ok=True)
    traces = {}
    for name in names:
        given = BUNDLES[name][2]
        for keep in ("all", "top") if name.startswith(("luong", "han")) else ("all",):
            lens = Lens(keep, detail=DETAILS if keep == "all" else (), **({"k": 2} if keep == "top" else {}))
            trace = saccade.load(bundles / name).predict([given], lens=lens)[0].trace
            if trace is not None:
                traces[f"{name}, {keep}"] = trace
    traces |= dict(_made_traces())
    for name, trace in traces.items():
        trace.save(folder / f"{name}.trace")
    return sorted(folder.glob("*.trace"))


def _made_traces() -> Iterator[tuple[str, Trace]]:
    torch.manual_seed(0)
    words = Tokens(("a", "b", "c"), text="a b c", spans=((0, 1), (2, 3), (4, 5)), words=(0, 1, 2), special=(2,))
    patches = Grid(tuple("012345"), height=2, width=3, image=torch.randint(0, 255, (8, 9, 3), dtype=torch.uint8))
    said = (("a", 0.0, 0.2), ("b", 0.2, 0.5))
    frames = Frames.of(5, 0.1, samples=torch.rand(80), rate=160, features=torch.rand(5, 4), segments=said)
    nodes = Nodes(tuple("nopq"), places=torch.rand(4, 2))
    visits = Visits(("v", "w"), times=("2020-01-01", "2020-02-03"))
    inner = Tokens(("d", "e", "f"), parent="visits", within=(0, 0, 1))
    reviews = Reviews(("r", "s"), ratings=(1.0, 4.5))
    sentences = Sentences(("S", "T"))
    others = {"patches": patches, "frames": frames, "reviews": reviews, "sentences": sentences}
    for name, axis in others.items():
        weights = torch.rand(3, len(axis)).softmax(-1)
        yield (
            name,
            Trace(
                {"words": words, name: axis},
                (AttentionMap("x", "words", name, "dense", {"weights": weights}, head=0, keys=len(axis)),),
                about={"task": "translate", "input": "a b", "output": "a b c"},
            ),
        )
    statistics = {
        "entropy": torch.rand(3),
        "maximum": torch.rand(3),
        "argmax": torch.tensor([0, 1, 1]),
        "received": torch.rand(3),
    }
    edges = {"edges": torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), "weights": torch.rand(4)}
    drawn = (AttentionMap("s", "words", "words", "statistics", statistics, keys=3),)
    yield "statistics", Trace({"words": words}, drawn, {"words": Signal("words", torch.rand(3, 2))})
    yield "edges", Trace({"nodes": nodes}, (AttentionMap("g", "nodes", "nodes", "edges", edges, keys=4),))
    nested = (
        AttentionMap("n", "words", "codes", "dense", {"weights": torch.rand(3, 3)}, keys=3),
        AttentionMap("v", "words", "visits", "dense", {"weights": torch.rand(3, 2)}, keys=2),
    )
    yield "visits", Trace({"words": words, "codes": inner, "visits": visits}, nested, about={"metrics": {"auc": 0.5}})


# Changes at random ------------------------------------------------------------------------------------------------------

HOSTILE: list[Callable[[random.Random], Any]] = [
    lambda draw: None,
    lambda draw: draw.choice([True, False]),
    lambda draw: draw.choice([-1, 0, 1, 2, 3, 7, 255, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**9, 10**12, 10**40]),
    lambda draw: draw.choice([0.0, -0.5, 0.5, 1.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")]),
    lambda draw: draw.choice(
        ["", " ", "x", "0", "null", "nan", "é", "\0", "\x1b]0;x\x07\x1b[31m", "\ud800", "\u202ex"]
    ),
    lambda draw: draw.choice(
        ["../../etc/passwd", "/etc/passwd", "antigravity:fly", "sys:exit", "hf://a/b", "~", "$HOME"]
    ),
    lambda draw: draw.choice(["(a+)+$", "(x*)*y", "%s%n{0}", "<script>alert(1)</script>", "</script>"]),
    lambda draw: draw.choice(
        [r"$\frac{$", "$x$", "[bold]x[/]", "[/]", "a\nb\tc", "\u0301", "\U0010ffff", "\ufdd0", "\u2028"]
    ),
    lambda draw: "y" * draw.choice([300, 5000, 300_000]),
    lambda draw: draw.choice(
        [[], {}, [[]], {"": {}}, [None], [1], ["a"], [[1, 2]], {"a": 1}, {"type": "x"}, {"tensor": "x"}]
    ),
    lambda draw: [draw.choice([0, "a", -1, 1.5])] * draw.choice([3, 1000, 30_000]),
    lambda draw: _nested(draw.choice([5, 50, 500])),
    lambda draw: {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "z" * 1000},
    lambda draw: {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "z" * 9999}] * 99},
]


def _nested(depth: int) -> Any:
    return [] if depth == 0 else [_nested(depth - 1)]


def places_in(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON document."""
    if above:
        yield above
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places_in(value, (*above, key))


def mutate(document: Any, draw: random.Random) -> tuple[Any, str]:
    """A copy of a JSON document with one value changed, and what was changed."""
    document = copy.deepcopy(document)
    every = list(places_in(document))
    if not every:
        return draw.choice(HOSTILE)(draw), "all of it"
    # First a section, then a place in it: of a tokenizer's thousand words as many as of its few settings.
    section = draw.choice([place[0] for place in every if len(place) == 1])
    part = [place for place in every if place[0] == section]
    depth = draw.randint(1, max(map(len, part)))
    place = draw.choice([place for place in part if len(place) == depth])
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    key, value = place[-1], parent[place[-1]]
    kind = draw.randrange(8)
    if kind == 0:
        del parent[key]
        return document, f"{place}: deleted"
    if kind == 1 and isinstance(parent, dict):
        parent[draw.choice(["", "x", "__class__", str(key) + "x", "\x1b[1m"])] = parent.pop(key)
        return document, f"{place}: renamed"
    if kind == 2 and isinstance(value, list) and value:
        value.insert(0, value[-1]) if draw.random() < 0.5 else value.pop()
        return document, f"{place}: longer or shorter"
    if kind == 3 and isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = draw.choice([-value, value + 1, value - 1, value * 10**6, value * 1000, float(value), str(value)])
        return document, f"{place}: {value!r} → {parent[key]!r}"
    if kind == 4:
        other = document
        for step in draw.choice(every):
            other = other[step] if isinstance(other, dict | list) else other
        parent[key] = copy.deepcopy(other)
        return document, f"{place}: another value of the file"
    parent[key] = draw.choice(HOSTILE)(draw)
    return document, f"{place}: {str(parent[key])[:60]!r}"


def reseal_bundle(folder: Path, config: dict[str, Any] | None = None) -> None:
    """Write digests and checksum that fit the files as they are."""
    config = config or json.loads((folder / bundle_format.CONFIG).read_text())
    config.pop("checksum", None)
    if isinstance(config.get("files"), dict):
        for name in config["files"]:
            path = folder / str(name)
            if "/" not in str(name) and "\0" not in str(name) and path.is_file() and path.stat().st_size < 10**8:
                config["files"][name] = hashlib.sha256(path.read_bytes()).hexdigest()
    checksum = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    (folder / bundle_format.CONFIG).write_text(json.dumps({**config, "checksum": checksum}), encoding="utf-8")


def mutate_bundle(source: Path, folder: Path, draw: random.Random) -> str:
    """A changed copy of a bundle; says what was changed."""
    folder.mkdir(parents=True)
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / bundle_format.CONFIG).read_text())
    kind = draw.choice(
        ["config"] * 8 + ["recipe"] * 8 + ["file"] * 10 + ["beside"] * 3 + ["bytes"] * 3 + ["tensors"] * 4
    )
    if kind == "config":
        changed, told = mutate({key: value for key, value in config.items() if key != "checksum"}, draw)
        reseal_digests = draw.random() < 0.5
        if reseal_digests and isinstance(changed, dict) and changed:
            reseal_bundle(folder, changed)
        else:
            checksum = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
            changed = {**changed, "checksum": checksum} if isinstance(changed, dict) else changed
            (folder / bundle_format.CONFIG).write_text(json.dumps(changed))
        return f"config: {told}"
    if kind == "recipe":
        config["recipe"], told = mutate(config["recipe"], draw)
        reseal_bundle(folder, config)
        return f"recipe: {told}"
    if kind == "file":
        name = draw.choice([name for name in config["files"] if name.endswith(".json")])
        changed, told = mutate(json.loads((folder / name).read_text()), draw)
        (folder / name).write_text(
            json.dumps(changed, ensure_ascii=draw.random() < 0.9), encoding="utf-8", errors="surrogatepass"
        )
        reseal_bundle(folder)
        return f"{name}: {told}"
    if kind == "beside":
        name = draw.choice(["run.json", "status.json", "metrics.json"])
        changed, told = mutate(json.loads((folder / name).read_text()), draw)
        (folder / name).write_text(json.dumps(changed))
        return f"{name}: {told}"
    if kind == "bytes":
        name = draw.choice(["config.json", "card.md", "run.json", *config["files"]])
        told = _mutate_bytes(folder / name, draw)
        if name != "config.json":
            reseal_bundle(folder)
        return f"{name}: {told}"
    told = mutate_tensors(folder / bundle_format.WEIGHTS, draw, document=False)
    reseal_bundle(folder)
    return f"tensors: {told}"


def _mutate_bytes(path: Path, draw: random.Random) -> str:
    content = path.read_bytes()
    at = draw.randrange(max(1, len(content)))
    kind = draw.choice(
        ["flipped", "truncated", "emptied", "not UTF-8", "removed", "a folder", "sparse", "a pipe", "a link"]
    )
    if kind == "flipped":
        path.write_bytes(content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :])
    elif kind == "truncated":
        path.write_bytes(content[:at])
    elif kind == "emptied":
        path.write_bytes(b"")
    elif kind == "not UTF-8":
        path.write_bytes(content[:at] + b"\xff\xfe\xc3" + content[at:])
    elif kind == "sparse":
        os.truncate(path, 20 * 10**9)
    else:
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        elif kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a link":
            path.symlink_to(draw.choice(["/dev/zero", "/dev/stdin", "/etc/passwd", path.name, "nowhere"]))
    return kind


def mutate_tensors(path: Path, draw: random.Random, *, document: bool = True) -> str:
    """Change a safetensors file, one tensor or its document, or its parts on disk, with a checksum that fits."""
    tensors, header = storage.load_tensors(path)
    kind = draw.choice(["document"] * 10 * document + ["tensor"] * 5 + ["raw"] * 2)
    if kind == "document":
        header, told = mutate(header, draw)
        storage.save_tensors(path, tensors, header)
        return told
    if kind == "raw":
        return _mutate_raw(path, draw)
    if not tensors:
        return "no tensor to change"
    name = draw.choice(sorted(tensors))
    tensor = tensors[name]
    floating = tensor.is_floating_point()
    change, told = draw.choice(
        [
            (lambda: tensor.double(), "float64"),
            (lambda: tensor.to(torch.float8_e4m3fn), "float8"),
            (lambda: tensor.to(torch.bfloat16), "bfloat16"),
            (lambda: tensor.bool(), "bool"),
            (lambda: tensor.to(torch.int8), "int8"),
            (lambda: tensor.unsqueeze(0), "one more axis"),
            (lambda: tensor.flatten()[:-1], "flat and shorter"),
            (lambda: tensor[:0], "empty"),
            (lambda: tensor.to(torch.complex64), "complex"),
            (lambda: torch.cat([tensor, tensor]), "twice"),
            (lambda: tensor.flatten()[0], "a scalar"),
            (lambda: torch.full_like(tensor, float("nan") if floating else -1), "nan or -1"),
            (
                lambda: torch.full_like(
                    tensor, float("inf") if floating else 10**9 if tensor.dtype == torch.int64 else 99
                ),
                "inf or large",
            ),
            (lambda: -tensor if tensor.dtype not in (torch.bool, torch.uint8) else ~tensor, "negated"),
            (lambda: torch.full_like(tensor, 3e38 if tensor.dtype == torch.float32 else 1), "3e38"),
            (lambda: None, "removed"),
            (lambda: tensor.reshape(-1), "flat"),
        ]
    )
    if tensor.dim() == 0 and told in ("empty", "twice", "flat and shorter"):
        told, new = "removed", None
    else:
        new = change()
    if new is None:
        del tensors[name]
    else:
        tensors[name] = new
    if draw.random() < 0.15:
        tensors[name + "x"] = tensor
    storage.save_tensors(path, tensors, header)
    return f"{name}: {told}"


def _mutate_raw(path: Path, draw: random.Random) -> str:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    kind = draw.choice(["length", "huge shape, sparse", "header", "sealed", "dtype", "trailing"])
    if kind == "length":
        path.write_bytes(struct.pack("<Q", draw.choice([0, 1, 2**31, 2**63, 10**8, length + 8])) + content[8:])
        return kind
    header = json.loads(content[8 : 8 + length])
    rest = content[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    if kind == "huge shape, sparse" and names:
        size = 20 * 10**9
        header = {
            "__metadata__": header["__metadata__"],
            names[0]: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]},
        }
        raw = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(raw)) + raw)
        os.truncate(path, 8 + len(raw) + size)
        return kind
    if kind == "sealed":
        header["__metadata__"][storage.HEADER] = draw.choice(
            ["", "[", "[]", "{}", "null", '{"crc32": 1, "document": 3}', "[" * 100_000]
        )
    elif kind == "dtype" and names:
        header[draw.choice(names)]["dtype"] = draw.choice(["F8_E5M2", "U64", "I16", "X", "BOOL", "F16"])
    elif kind == "trailing":
        rest += b"x" * draw.choice([1, 1000])
    else:
        header, _ = mutate(header, draw)
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + rest)
    return kind


def mutate_trace(source: Path, path: Path, draw: random.Random) -> str:
    """A changed copy of a trace; says what was changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    return _mutate_bytes(path, draw) if draw.random() < 0.05 else mutate_tensors(path, draw)


# Use as a person would ----------------------------------------------------------------------------------------------------


def use_bundle(folder: Path, name: str) -> None:
    """What a person does with a bundle that they were sent; raises what goes wrong."""
    find_runs(folder.parent)
    with suppress(SaccadeError):  # what is wrong is told; the bundle may be whole
        describe(folder)
    bundle = saccade.load(folder)
    repr(bundle)
    given = BUNDLES[name][2]
    json.dumps([prediction.to_json() for prediction in bundle.predict([given])])
    for prediction in bundle.predict([given], lens=Lens(detail=DETAILS)):
        if prediction.trace is not None:
            render(prediction.trace, width=80, colour="none")
            page(prediction.trace)
    bundle.evaluate()


def use_trace(path: Path, *, picture: bool = False) -> None:
    """What a person does with a trace that they were sent; raises what goes wrong."""
    trace = Trace.load(path)
    repr(trace)
    render(trace, width=80, colour="none")
    page(trace)
    again = path.with_name("again.trace")
    trace.save(again)
    assert same(Trace.load(again), trace)
    if picture:
        trace.save(again.with_suffix(".svg"))
