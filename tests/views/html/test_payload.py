"""What a page holds of a trace: every number comes back, or the page says how far off it is and what is missing."""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import struct
import wave

import matplotlib.image
import numpy as np
import pytest
import torch

from saccade.errors import SaccadeError
from saccade.trace import AttentionMap, Lens, Signal, Trace
from saccade.trace.axes import Frames, Grid, Nodes, Reviews, Tokens
from saccade.trace.lens import Site
from saccade.trace.maps import Outputs, Tree
from saccade.views.html import payload
from saccade.views.html.payload import page_data
from saccade.views.html.weights import EXACT, LEVELS, ROOM, quantised, thumbnail

NUMPY = {"f32": "<f4", "u8": "u1", "i32": "<i4"}


def decoded(page, block):
    """A block as the explorer reads it."""
    array = np.frombuffer(gzip.decompress(page.blocks[block["block"]]), NUMPY[block["dtype"]]).reshape(block["shape"])
    if "rows" in block:
        return (array / 255) ** 2 * decoded(page, block["rows"])[:, None]
    return array


def dense(T, S, *, site="decoder.attention", query="target", key="source", head=None, spread=1.0, scores=False):
    made = torch.randn(T, S) * spread
    tensors = {"weights": made.softmax(-1)} | ({"scores": made} if scores else {})
    return AttentionMap(site, query, key, "dense", tensors, head=head, keys=S)


def only(page):
    [trace] = page.header["traces"]
    return trace


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_a_small_trace_comes_back_to_the_last_bit():
    map = dense(3, 5, scores=True)
    state = Signal("target", torch.randn(3, 7), step=0)
    outputs = Outputs("target", (("a", "b"),) * 3, torch.rand(3, 2), torch.tensor([[1, 2], [3, 4], [70000, 6]]))
    page = page_data(Trace(maps=(map,), signals={"decoder.state": state}, outputs=outputs))
    trace = only(page)
    [written] = trace["maps"]
    for name in ("weights", "scores"):
        assert written["tensors"][name]["dtype"] == "f32"
        assert np.array_equal(decoded(page, written["tensors"][name]), map.tensors[name].numpy())
    assert np.array_equal(decoded(page, trace["signals"]["decoder.state"]["values"]), state.values.numpy())
    assert decoded(page, trace["outputs"]["index"]).tolist() == outputs.index.tolist()
    assert (written["queries"], written["keys"], written["kind"], written["head"]) == (3, 5, "dense", None)
    assert "notes" not in trace["about"]


def test_the_same_trace_gives_the_same_bytes():
    trace = Trace(maps=(dense(3, 5), dense(7, 5, site="x")), about={"input": "a"})
    one, other = page_data(trace), page_data(trace)
    assert one == other
    assert all(block[4:8] == b"\0\0\0\0" for block in one.blocks), "a gzip file carries no time"


def test_axes_that_nobody_labelled_are_positions():
    axes = only(page_data(Trace(maps=(dense(3, 5),))))["axes"]
    assert axes["target"]["labels"] == ["0", "1", "2"]
    assert axes["source"]["kind"] == "positions" and len(axes["source"]["labels"]) == 5


def test_what_is_no_number_is_null_in_json_and_itself_in_blocks():
    weights = torch.tensor([[0.5, math.nan, 0.25], [math.inf, 0.0, 1.0]])
    tree = Tree(("a", "b"), *(torch.tensor([-1, 0]) for _ in range(3)), torch.tensor([-0.5, -math.inf]),
                torch.tensor([False, True]), torch.tensor([True, False]))  # fmt: skip
    about = {"score": math.nan, "parts": {"x": (math.inf, 1.5, torch.tensor(2.0), np.float32(3))}, "path": object}
    axes = {"source": Reviews(("r", "s", "t"), ratings=(1.0, math.nan, 3.0))}
    map = AttentionMap("look", "target", "source", "dense", {"weights": weights}, keys=3)
    page = page_data(Trace(axes, (map,), tree=tree, about=about))
    trace = json.loads(json.dumps(page.header, allow_nan=False))["traces"][0]
    assert trace["about"]["score"] is None and trace["about"]["parts"] == {"x": [None, 1.5, 2.0, 3.0]}
    assert trace["tree"]["log_prob"] == [-0.5, None] and trace["tree"]["ended"] == [False, True]
    assert trace["axes"]["source"]["ratings"] == [1.0, None, 3.0]
    [written] = trace["maps"]
    assert written["entropy"] is None
    assert np.array_equal(decoded(page, written["tensors"]["weights"]), weights.numpy(), equal_nan=True)
    assert decoded(page, written["thumb"]["block"]).max() == 255


class TestLargePages:
    def heads(self, count=9, T=401, S=307, spread=3.0, **more):
        assert count * T * S > EXACT
        return tuple(dense(T, S, head=head, spread=spread, **more) for head in range(count))

    def test_weights_become_bytes_that_stay_close(self):
        maps = self.heads()
        page = page_data(Trace(maps=maps))
        for map, written in zip(maps, only(page)["maps"]):
            assert written["tensors"]["weights"]["dtype"] == "u8"
            back, true = decoded(page, written["tensors"]["weights"]), map.weights.numpy()
            largest = true.max(1, keepdims=True)
            assert np.array_equal(back.max(1, keepdims=True).astype(np.float32), largest)
            # Half a step of √(weight / largest), at most 1/510, squared.
            assert (abs(np.sqrt(back / largest) - np.sqrt(true / largest)) <= 1 / 510 + 1e-6).all()

    def test_weights_that_are_no_numbers_stay_as_they_are(self):
        maps = self.heads()
        maps[4].tensors["weights"][3, 5] = math.nan
        page = page_data(Trace(maps=maps))
        kinds = [written["tensors"]["weights"]["dtype"] for written in only(page)["maps"]]
        assert kinds == ["u8"] * 4 + ["f32"] + ["u8"] * 4

    def test_scores_of_alignments_are_kept_and_those_of_self_attention_are_not(self):
        own = tuple(
            dense(401, 307, site="self", query="source", key="source", head=head, scores=True) for head in range(9)
        )
        across = dense(17, 307, scores=True)
        page = page_data(Trace(maps=(*own, across)))
        kept = ["scores" in written["tensors"] for written in only(page)["maps"]]
        assert kept == [False] * 9 + [True]
        assert "Scores are left out to keep the page small (9 of 10 maps)." in only(page)["about"]["notes"]

    def test_states_that_do_not_fit_are_named(self):
        signals = {
            "a.context": Signal("source", torch.randn(307, 500)),
            "encoder.state": Signal("source", torch.randn(307, 501)),
        }
        trace = only(page_data(Trace(maps=self.heads(), signals=signals)))
        assert list(trace["signals"]) == ["encoder.state"]
        assert "Left out to keep the page small: a.context." in trace["about"]["notes"]

    def test_a_map_above_512_by_512_keeps_the_largest_and_what_is_left_of_each_row(self):
        map = dense(600, 777, spread=2.0, scores=True)
        page = page_data(Trace(maps=(map,)))
        [written] = only(page)["maps"]
        assert (written["kind"], written["queries"], written["keys"]) == ("top", 600, 777)
        assert set(written["tensors"]) == {"index", "weights", "residual"}
        index, kept = (decoded(page, written["tensors"][name]) for name in ("index", "weights"))
        best = map.weights.topk(16)
        assert np.array_equal(index, best.indices.numpy())
        assert np.allclose(kept, best.values, atol=0.005)
        residual = decoded(page, written["tensors"]["residual"])
        assert np.allclose(residual, 1 - best.values.sum(1), atol=1e-6)
        exact = -(map.weights * map.weights.log()).sum(-1).mean()
        assert written["entropy"] == pytest.approx(float(exact), rel=1e-4)
        [note, *_] = only(page)["about"]["notes"]
        assert note == "The 16 largest weights of each row are kept, and the sum of the others (1 of 1 maps)."

    def test_how_many_are_kept_can_be_chosen(self):
        [written] = only(page_data(Trace(maps=(dense(600, 777),)), keep=3))["maps"]
        assert written["tensors"]["index"]["shape"] == [600, 3]
        with pytest.raises(SaccadeError, match=r"keep: expected 1 .* found 0"):
            page_data(Trace(), keep=0)

    @pytest.mark.parametrize("spread", [0.5, 1.0, 4.0])
    def test_broad_weights_still_fit_into_ten_megabytes(self, spread, monkeypatch):
        """A quarter of 12 × 12 × 512 × 512 has a quarter of the room."""
        from saccade.views.html import weights

        monkeypatch.setattr(weights, "ROOM", weights.ROOM // 4)
        heads = tuple(dense(512, 512, head=head % 12, site=str(head // 12), spread=spread) for head in range(36))
        page = page_data(Trace(maps=heads))
        assert sum(len(block) for block in page.blocks) * 4 / 3 < 9_700_000 / 4
        notes = only(page)["about"]["notes"]
        assert any("rounded to" in note or "largest weights of each row" in note for note in notes)

    @pytest.mark.parametrize("levels", [each for each in LEVELS if each])
    def test_fewer_steps_are_off_by_half_a_step_and_large_weights_by_less(self, levels):
        weights = torch.randn(7, 301).softmax(-1).numpy()
        steps, largest = quantised(weights, levels)
        back, true = (steps / 255) ** 2, weights / largest[:, None]
        assert abs(back - true).max() <= 0.5 / levels + 0.005
        assert abs(back - true)[true > 0.5].max() <= 0.005


def test_thumbnails_share_a_block_and_hold_the_largest_of_each_part():
    maps = (dense(3, 5), dense(131, 67, site="b"), dense(0, 5, site="empty"))
    page = page_data(Trace(maps=maps))
    first, second, empty = (written["thumb"] for written in only(page)["maps"])
    assert empty is None and first["block"] == second["block"]
    assert (first["rows"], first["columns"], first["at"]) == (3, 5, 0)
    assert (second["rows"], second["columns"], second["at"]) == (64, 64, 15)
    shared = decoded(page, second["block"])
    assert shared.shape == (15 + 64 * 64,)
    weights = maps[1].weights.numpy()
    strongest = np.unravel_index(weights.argmax(), weights.shape)
    thumb = shared[15:].reshape(64, 64)
    assert thumb[strongest[0] * 64 // 131, strongest[1] * 64 // 67] == 255
    small = np.rint(255 * np.sqrt(maps[0].weights.numpy() / maps[0].weights.max().item()))
    assert np.array_equal(shared[:15].reshape(3, 5), small)


@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_entropy_is_the_mean_of_the_rows_where_it_is_known(keep):
    weights = (torch.randn(1, 1, 5, 7) * 2).softmax(-1)
    lens = Lens(keep, k=3)
    lens.observe(Site("look", "target", "source"), weights)
    [written] = only(page_data(lens.trace))["maps"]
    known = -(weights * weights.log()).sum(-1).mean().item()
    assert written["entropy"] == (None if keep == "top" else pytest.approx(known, rel=1e-5))


def test_edges_keep_their_places_and_have_a_thumbnail():
    lens = Lens()
    edges = torch.tensor([[0, 0, 2], [1, 2, 0]])
    lens.observe_edges(Site("gat", "nodes", "nodes"), edges, torch.tensor([[0.5], [0.5], [1.0]]), keys=3)
    page = page_data(lens.trace.labelled({"nodes": Nodes(("a", "b", "c"), places=torch.rand(3, 2))}))
    [written] = only(page)["maps"]
    assert decoded(page, written["tensors"]["edges"]).tolist() == edges.tolist()
    assert written["tensors"]["edges"]["dtype"] == "i32"
    assert written["entropy"] == pytest.approx(math.log(2) / 2)
    thumb = decoded(page, written["thumb"]["block"]).reshape(3, 3)
    assert thumb.tolist() == [[0, 180, 180], [0, 0, 0], [255, 0, 0]]
    assert only(page)["axes"]["nodes"]["places"]["shape"] == [3, 2]


def test_a_picture_and_a_sound_travel_inside_the_page():
    image = torch.randint(0, 256, (6, 9, 3), dtype=torch.uint8)
    audio = torch.tensor([0.0, 0.5, -1.0, 7.0, math.nan])
    spectrogram = torch.randn(4, 5)
    axes = {
        "patches": Grid(tuple("abcdef"), height=2, width=3, image=image),
        "frames": Frames(tuple("12345"), seconds=0.25, spectrogram=spectrogram, audio=audio, rate=8000),
    }
    page = page_data(Trace(axes))
    patches, frames = only(page)["axes"]["patches"], only(page)["axes"]["frames"]
    kind, _, content = patches["image"].partition(";base64,")
    assert kind == "data:image/png" and (patches["height"], patches["width"]) == (2, 3)
    seen = matplotlib.image.imread(io.BytesIO(base64.b64decode(content)), format="png")
    assert np.array_equal(np.rint(seen * 255), image.numpy())
    kind, _, content = frames["audio"].partition(";base64,")
    assert kind == "data:audio/wav" and frames["rate"] == 8000
    with wave.open(io.BytesIO(base64.b64decode(content))) as file:
        assert (file.getframerate(), file.getnchannels()) == (8000, 1)
        heard = np.frombuffer(file.readframes(5), "<i2")
    assert heard.tolist() == [0, 16384, -32767, 32767, 0]
    assert np.array_equal(decoded(page, frames["spectrogram"]), spectrogram.numpy())


def test_something_is_left_of_a_large_thin_picture():
    strip = Grid(("a",), height=1, width=1, image=torch.full((5000, 2, 3), 9, dtype=torch.uint8))
    address = page_data(Trace(axes={"a": strip})).header["traces"][0]["axes"]["a"]["image"]
    content = base64.b64decode(address.partition(",")[2])
    assert struct.unpack(">II", content[16:24]) == (1, 1000)


def test_a_large_picture_is_made_smaller():
    image = torch.full((1500, 2100, 3), 77, dtype=torch.uint8)
    page = page_data(Trace({"patches": Grid(("a",), height=1, width=1, image=image)}))
    content = base64.b64decode(only(page)["axes"]["patches"]["image"].partition(",")[2])
    seen = matplotlib.image.imread(io.BytesIO(content), format="png")
    assert seen.shape == (500, 700, 3) and np.rint(seen.mean() * 255) == 77


WORDS = {
    "pieces by their spans": (Tokens(("un", "able", "Now"), text="unable now", spans=((0, 2), (2, 6), (7, 10))), [0, 0, 1]),
    "pieces found in the text": (Tokens(("un", "able", "now", "<eos>"), text="unable now", special=(3,)), [0, 0, 1, 2]),
    "as the axis says": (Tokens(("a", "b", "c"), words=(0, 0, 5)), [0, 0, 5]),
    "characters": (Tokens(tuple("5 mai"), text="5 mai"), [0, 1, 2, 2, 2]),
    "pieces that the text does not hold": (Tokens(("x", "y", "!"), text="other"), [0, 0, 1]),
    "words are words": (Tokens(("der", "Hund"), text="der Hund"), []),
    "no spaces between words": (Tokens(("日", "本語"), text="日本語", spans=((0, 1), (1, 3))), []),
    "marks belong to letters": (Tokens(("हि", "न्दी", "भाषा"), text="हिन्दी भाषा"), [0, 0, 1]),
    "nothing": (Tokens(()), []),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
def test_tokens_are_grouped_to_words(case):
    axis, words = WORDS[case]
    assert only(page_data(Trace({"source": axis})))["axes"]["source"]["words"] == words


def test_a_menu_names_traces_by_their_inputs_and_tells_equal_ones_apart():
    traces = [Trace(about={"input": text, "recipe": "dates"}) for text in ("a", "b", "a", "x" * 300, "  ")]
    header = page_data(traces).header
    names = [trace["name"] for trace in header["traces"]]
    assert names[:3] == ["a", "b", "a · 2"] and names[4] == "trace"
    assert len(names[3]) == 80 and names[3].endswith("…")
    assert header["title"] == "dates · 5 inputs"
    assert [trace["name"] for trace in page_data({"one": traces[0]}).header["traces"]] == ["one"]


def test_a_thumbnail_of_kept_weights_is_that_of_all_where_all_were_kept():
    whole = dense(130, 77, spread=3.0)
    kept, index = whole.weights.sort(-1, descending=True)
    tensors = {"index": index, "weights": kept, "residual": torch.zeros(130)}
    sparse = AttentionMap("s", "target", "source", "top", tensors, keys=77)
    assert np.array_equal(thumbnail(sparse), thumbnail(whole))


@pytest.mark.parametrize("inputs", [("x · y",) * 3, ("a", "a", "a · 2"), ("a", "a · 2", "a")])
def test_no_trace_is_lost_whatever_inputs_are_called(inputs):
    traces = [Trace(about={"input": each}) for each in inputs]
    shown = page_data(traces).header["traces"]
    assert [each["about"]["input"] for each in shown] == list(inputs)
    assert len({each["name"] for each in shown}) == 3


ODD = {
    "spans beyond their text": {"source": Tokens(("a", "b"), text="a", spans=((0, 1), (1, 2)))},
    "spans without a text": {"source": Tokens(("a", "b"), spans=((0, 1), (1, 2)))},
    "a sound at no rate": {"source": Frames(("a",), audio=torch.rand(7))},
    "a picture without pixels": {"source": Grid(("a",), height=1, width=1, image=torch.zeros(0, 5, 3).byte())},
}


def test_of_a_long_sound_pairs_of_samples_become_their_mean(monkeypatch):
    monkeypatch.setattr(payload, "MOST_SAMPLES", 3)
    axis = Frames(
        tuple("ab"), seconds=0.25, audio=torch.tensor([10, 20, 30, 50, -4, -8, 9], dtype=torch.int16), rate=8000
    )
    content = base64.b64decode(only(page_data(Trace({"x": axis})))["axes"]["x"]["audio"].partition(";base64,")[2])
    with wave.open(io.BytesIO(content)) as file:
        assert file.getframerate() == 4000
        assert np.frombuffer(file.readframes(9), "<i2").tolist() == [15, 40, -6]


@pytest.mark.parametrize("odd", ODD)
def test_an_axis_leaves_out_what_cannot_be_shown(odd):
    axis = page_data(Trace(axes=ODD[odd])).header["traces"][0]["axes"]["source"]
    assert axis["labels"] == list(ODD[odd]["source"].labels)
    assert not axis.get("spans") and "audio" not in axis and "image" not in axis


@pytest.mark.parametrize("image", [torch.zeros(7, 5).byte(), torch.zeros(7, 5, 4).byte(), torch.zeros(7, 5, 3)])
def test_a_picture_of_another_form_is_one_clear_error(image):
    with pytest.raises(SaccadeError, match=r"expected uint8 \[rows, columns, 3\], found"):
        page_data(Trace(axes={"source": Grid(("a",), height=1, width=1, image=image)}))


@pytest.mark.parametrize(("notes", "told"), [(None, None), ("cut", ["cut"]), (["cut", "odd"], ["cut", "odd"])])
def test_notes_may_be_none_one_or_several(notes, told):
    assert page_data(Trace(about={"notes": notes})).header["traces"][0]["about"]["notes"] == told


def test_a_set_is_written_in_one_order():
    told = page_data(Trace(about={"words": {"b", "c", "a"}, "recipe": ["odd"]})).header["traces"][0]["about"]
    assert told["words"] == ["a", "b", "c"]


def test_many_weights_that_are_no_numbers_do_not_make_a_page_large():
    weights = torch.rand(300, 300)
    weights[3, 5] = math.nan
    maps = tuple(AttentionMap("s", "a", "b", "dense", {"weights": weights}, head=n, keys=300) for n in range(24))
    data = page_data(Trace(maps=maps))
    assert sum(map(len, data.blocks)) < ROOM
    assert [each["kind"] for each in data.header["traces"][0]["maps"]] == ["top"] * 24
    assert "24 of 24 maps" in data.header["traces"][0]["about"]["notes"][0]


def test_a_page_may_hold_no_trace_and_a_trace_nothing():
    assert page_data([], title="empty").header["traces"] == []
    trace = only(page_data(Trace()))
    assert (trace["maps"], trace["axes"], trace["outputs"], trace["tree"]) == ([], {}, None, None)


def test_a_server_answers_with_the_header_and_base64():
    page = page_data(Trace(maps=(dense(3, 5),)), live={"model": "m", "api": "/v1"})
    answer = json.loads(json.dumps(page.to_json()))
    assert answer["header"]["live"] == {"model": "m", "api": "/v1"}
    assert base64.b64decode(answer["blocks"][0]) == page.blocks[0]


def test_the_scale_runs_from_the_background_to_strong():
    scale = page_data(Trace()).header["scale"]
    light, dark = (np.frombuffer(base64.b64decode(scale[name]), np.uint8).reshape(256, 3) for name in ("light", "dark"))
    assert light[0].tolist() == [255, 255, 255] and light[255].max() < 110
    assert dark[0].max() < 60 and dark[255].max() > 220


def test_a_classifier_s_shares_are_the_page_s_labels():
    assert only(page_data(Trace(about={"probabilities": {"good": 0.75}})))["about"]["labels"] == {"good": 0.75}


def test_half_precision_is_written_as_float32():
    map = AttentionMap("a", "q", "k", "dense", {"weights": torch.rand(3, 5).to(torch.bfloat16)}, keys=5)
    page = page_data(Trace(maps=(map,)))
    assert np.array_equal(decoded(page, only(page)["maps"][0]["tensors"]["weights"]), map.weights.float().numpy())
