"""A trace comes back from its file without loss, and a file that is no whole trace is refused."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from saccade.errors import InputError
from saccade.storage import load_tensors, save_tensors
from saccade.trace.axes import Axis, Frames, Grid, Nodes, Positions, Reviews, Sentences, Tokens, Visits
from saccade.trace.file import load, same, save
from saccade.trace.maps import AttentionMap, Outputs, Signal, Trace, Tree

HOSTILE = (
    "</script>",
    "😀",
    "👨‍👩‍👧",
    "مرحبا",
    "\u202e",
    "\ud800",
    "\x00\x1b[31m",
    "\n",
    "",
    " ",
    '"\\',
    "年",
    "$x_1$",
)


def axes() -> dict[str, Axis]:
    return {
        "positions": Positions.of(5),
        "words": Tokens(
            HOSTILE,
            parent="sentences",
            within=(0,) * 6 + (1,) * 7,
            text="".join(HOSTILE),
            spans=tuple((place, place + 1) for place in range(13)),
            words=tuple(range(13)),
            special=(12,),
        ),
        "sentences": Sentences(["One.", "Two."]),
        "image": Grid(
            [str(patch) for patch in range(6)],
            height=2,
            width=3,
            image=torch.randint(0, 255, (4, 6, 3)).byte(),
            box=(0.25, 0.0, 0.75, 1.0),
        ),
        "sound": Frames(
            ["0", "1", "2"], seconds=0.01, spectrogram=torch.randn(4, 3), audio=torch.randn(480), rate=16_000
        ),
        "small sound": Frames.of(
            3,
            0.02,
            samples=torch.rand(971) * 2 - 1,
            rate=16_000,
            features=torch.randn(7, 5),
            pooling=2,
            start=1.5,
            segments=[("a", 1.5, 1.54), ("", 1.54, 1.54)],
        ),
        "graph": Nodes(["a", "b"], places=torch.randn(2, 2)),
        "patient": Visits(["flu"], times=("2009-05-05",)),
        "user": Reviews(["good", "bad"], ratings=(4.5, math.nan)),
        "bare": Tokens([]),
    }


def maps() -> tuple[AttentionMap, ...]:
    weights = torch.randn(5, 13).softmax(-1)
    kept, index = weights.topk(3)
    dense = {"weights": weights, "scores": torch.randn(5, 13).masked_fill(weights < 0.05, -math.inf)}
    top = {"index": index, "weights": kept, "residual": 1 - kept.sum(-1)}
    statistics = {
        "entropy": torch.rand(5),
        "maximum": weights.max(-1).values,
        "argmax": weights.argmax(-1),
        "received": weights.sum(0),
    }
    edges = {"edges": torch.tensor([[0, 1, 1], [1, 0, 1]]), "weights": torch.tensor([1.0, 0.25, 0.75])}
    unknown = {"weights": torch.tensor([[math.nan, 0.5]], dtype=torch.bfloat16)}
    return (
        AttentionMap("decoder.cross", "positions", "words", "dense", dense, head=3, keys=13),
        AttentionMap("decoder.cross", "positions", "words", "top", top, head=None, keys=13),
        AttentionMap("encoder </script>", "positions", "words", "statistics", statistics, head=0, keys=13),
        AttentionMap("gat", "graph", "graph", "edges", edges, head=1, keys=2),
        AttentionMap("late", "positions", "user", "dense", unknown, head=0, step=4, keys=2),
    )


def whole() -> Trace:
    tree = Tree(
        labels=("", *HOSTILE[:2]),
        parent=torch.tensor([-1, 0, 0]),
        step=torch.tensor([0, 1, 1]),
        token=torch.tensor([1, 4, 5]),
        log_prob=torch.tensor([0.0, -0.1, -math.inf]),
        ended=torch.tensor([False, True, False]),
        chosen=torch.tensor([True, True, False]),
    )
    return Trace(
        axes=axes(),
        maps=maps(),
        signals={
            "state": Signal("positions", torch.randn(5, 4), step=0),
            "context": Signal("words", torch.randn(2, 3), 11),
            "heads.context": Signal("positions", torch.randn(5, 3, 7)),
        },
        outputs=Outputs("positions", (HOSTILE[:3], HOSTILE[3:6]), torch.rand(2, 3), torch.arange(6).view(2, 3)),
        tree=tree,
        about={"model": "m </script> \ud800", "score": -math.inf, "beam": [1, {"loss": math.nan}], "input": None},
    )


class TestRoundTrip:
    def test_everything_a_trace_holds_comes_back_bit_for_bit(self, tmp_path: Path) -> None:
        trace = whole()
        save(trace, tmp_path / "x.trace")
        back = load(tmp_path / "x.trace")
        assert same(back, trace)
        assert {name: type(axis) for name, axis in back.axes.items()} == {n: type(a) for n, a in trace.axes.items()}
        assert back.axes["words"] == trace.axes["words"]
        assert back.axes["words"].labels == HOSTILE
        assert back.axes["image"] == trace.axes["image"]
        assert back.outputs is not None
        assert back.outputs.labels == (HOSTILE[:3], HOSTILE[3:6])
        assert back.tree is not None
        assert back.tree.labels == ("", *HOSTILE[:2])
        assert [(map.site, map.head, map.step, map.keys) for map in back.maps] == [
            (map.site, map.head, map.step, map.keys) for map in trace.maps
        ]

    def test_an_empty_trace_comes_back_empty(self, tmp_path: Path) -> None:
        save(Trace(), tmp_path / "x.trace")
        assert same(load(tmp_path / "x.trace"), Trace())

    def test_what_was_loaded_and_saved_again_is_the_same_file(self, tmp_path: Path) -> None:
        save(whole(), tmp_path / "x.trace")
        save(load(tmp_path / "x.trace"), tmp_path / "y.trace")
        assert (tmp_path / "x.trace").read_bytes() == (tmp_path / "y.trace").read_bytes()


class TestRefusal:
    def test_every_truncated_file_is_refused(self, tmp_path: Path) -> None:
        save(whole(), tmp_path / "x.trace")
        content = (tmp_path / "x.trace").read_bytes()
        for size in [*range(0, len(content), 97), len(content) - 1]:
            (tmp_path / "cut.trace").write_bytes(content[:size])
            with pytest.raises(InputError, match=r"cut\.trace"):
                load(tmp_path / "cut.trace")

    def test_flipped_bytes_are_refused(self, tmp_path: Path) -> None:
        save(whole(), tmp_path / "x.trace")
        content = (tmp_path / "x.trace").read_bytes()
        for place in range(8, len(content), 41):
            flipped = bytearray(content)
            flipped[place] ^= 0x15
            (tmp_path / "flipped.trace").write_bytes(flipped)
            with pytest.raises(InputError):
                load(tmp_path / "flipped.trace")

    def test_foreign_safetensors_are_refused(self, tmp_path: Path) -> None:
        save_file({"weights": torch.zeros(3)}, tmp_path / "x.trace")
        with pytest.raises(InputError, match="written by saccade"):
            load(tmp_path / "x.trace")

    @pytest.mark.parametrize("header", [{"format": "saccade-checkpoint"}, [], None, "trace", 7])
    def test_a_saccade_file_of_another_kind_is_refused(self, header: object, tmp_path: Path) -> None:
        save_tensors(tmp_path / "x.trace", {}, header)
        with pytest.raises(InputError, match="another kind"):
            load(tmp_path / "x.trace")

    @pytest.mark.parametrize("version", [0, 2, "1", None])
    def test_another_version_is_refused_by_number(self, version: object, tmp_path: Path) -> None:
        save(whole(), tmp_path / "x.trace")
        tensors, header = load_tensors(tmp_path / "x.trace")
        save_tensors(tmp_path / "x.trace", tensors, {**header, "version": version})
        with pytest.raises(InputError, match=f"expected a trace of version 1, found version {version!r}"):
            load(tmp_path / "x.trace")

    @pytest.mark.parametrize(
        "change",
        [
            {"maps": None},
            {"axes": []},
            {"axes": {"x": {"kind": "smells", "labels": []}}},
            {"axes": {"x": {"kind": ["tokens"]}}},
            {"axes": {"x": {"kind": "grid", "labels": ["a"], "height": 3, "width": 3}}},
            {"axes": {"x": {"kind": "frames", "labels": [], "segments": [["a", 0.5, 0.25]]}}},
            {"axes": {"x": {"kind": "frames", "labels": [], "segments": [["a", 0.5]]}}},
            {"axes": {"x": {"kind": "frames", "labels": [], "segments": [["a", 0.5, math.nan]]}}},
            {"axes": {"x": {"kind": "nodes", "labels": [], "places": {"tensor": "absent"}}}},
            {"signals": {"x": {"axis": "words"}}},
            {"outputs": {"labels": 3}},
            {"tree": 7},
            {"maps": [{"site": "s"}]},
        ],
    )
    def test_a_header_with_parts_missing_is_refused(self, change: dict[str, object], tmp_path: Path) -> None:
        save(whole(), tmp_path / "x.trace")
        tensors, header = load_tensors(tmp_path / "x.trace")
        save_tensors(tmp_path / "x.trace", tensors, {**header, **change})
        with pytest.raises(InputError, match=rf"x\.trace: {next(iter(change))}[.:\[].*expected .*, found ") as told:
            load(tmp_path / "x.trace")
        assert "smells" not in str(change) or "tokens" in str(told.value)  # the kinds that there are

    @pytest.mark.parametrize(
        ("change", "found"),
        [
            ({"audio": torch.zeros(7, dtype=torch.int64)}, r"axes\.x\.audio: expected int16 or .*, found int64"),
            ({"audio": torch.zeros(3, 5)}, r"axes\.x\.audio: expected shape s, found 3 × 5"),
            ({"spectrogram": torch.zeros(4, 3).short()}, r"axes\.x\.spectrogram: expected uint8 or .*, found int16"),
            (
                {"spectrogram": torch.zeros(0, 3).byte()},
                r"axes\.x\.spectrogram: expected one value or more, found none",
            ),
            ({"audio": torch.zeros(16_000 * 3600 + 1, dtype=torch.int16)}, r"audio\.size: expected at most 57,600,000"),
            ({"rate": 192_001}, r"axes\.x\.rate: expected at most 192,000, found 192,001"),
            ({"seconds": math.inf}, r"axes\.x\.seconds: expected a number of at least 0, found inf"),
            ({"seconds": 1e300}, r"axes\.x\.seconds: expected at most 10,000,000, found 1e\+300"),
            ({"start": -0.5}, r"axes\.x\.start: expected a number of at least 0, found -0\.5"),
            ({"start": 1e300}, r"axes\.x\.start: expected at most 10,000,000, found 1e\+300"),
        ],
    )
    def test_frames_of_a_sound_that_cannot_be_shown_are_refused(
        self, change: dict[str, Any], found: str, tmp_path: Path
    ) -> None:
        save(Trace({"x": replace(Frames(["0", "1", "2"]), **change)}), tmp_path / "x.trace")
        with pytest.raises(InputError, match=found):
            load(tmp_path / "x.trace")

    @pytest.mark.parametrize("shape", [(), (5,), (5, 3, 2, 1)])
    def test_a_signal_that_is_no_vector_a_position_is_refused(self, shape: tuple[int, ...], tmp_path: Path) -> None:
        save(replace(whole(), signals={"odd": Signal("positions", torch.zeros(shape))}), tmp_path / "x.trace")
        with pytest.raises(InputError, match=r"signals\.odd\.values: expected shape T × n"):
            load(tmp_path / "x.trace")

    @pytest.mark.parametrize(
        ("number", "change"),
        [
            (0, {"kind": "dreamt"}),
            (0, {"kind": "top"}),
            (0, {"keys": 12}),
            (0, {"tensors": {"weights": torch.zeros(13)}}),
            (0, {"step": 1}),
            (
                1,
                {
                    "tensors": {
                        "index": torch.full((5, 3), 13),
                        "weights": torch.zeros(5, 3),
                        "residual": torch.zeros(5),
                    }
                },
            ),
            (
                1,
                {
                    "tensors": {
                        "index": torch.full((5, 3), -1),
                        "weights": torch.zeros(5, 3),
                        "residual": torch.zeros(5),
                    }
                },
            ),
            (1, {"tensors": {"index": torch.zeros(5, 3), "weights": torch.zeros(5, 3), "residual": torch.zeros(5)}}),
            (
                1,
                {
                    "tensors": {
                        "index": torch.zeros(5, 3).long(),
                        "weights": torch.zeros(5, 2),
                        "residual": torch.zeros(5),
                    }
                },
            ),
            (3, {"tensors": {"edges": torch.tensor([[0], [2]]), "weights": torch.ones(1)}}),
            (3, {"tensors": {"edges": torch.tensor([[2**40], [0]]), "weights": torch.ones(1)}}),
            (3, {"tensors": {"edges": torch.tensor([[-1], [0]]), "weights": torch.ones(1)}}),
        ],
    )
    def test_a_map_that_is_not_what_it_says_is_refused(
        self, number: int, change: dict[str, object], tmp_path: Path
    ) -> None:
        trace = whole()
        broken = [replace(map, **change) if place == number else map for place, map in enumerate(trace.maps)]
        save(replace(trace, maps=tuple(broken)), tmp_path / "x.trace")
        with pytest.raises(InputError, match="a damaged one"):
            load(tmp_path / "x.trace")
