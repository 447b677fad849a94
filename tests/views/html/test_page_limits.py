"""How large a page may become: what is left out then, what is said of it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from saccade.errors import SaccadeError
from saccade.trace import AttentionMap, Lens, Signal, Trace
from saccade.trace.lens import Site
from saccade.views.html import payload as page
from saccade.views.html import weights
from saccade.views.html.payload import page_data
from tests.views.html.test_payload import decoded, dense, only


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class TestTheLargestPages:
    """What a lens kept of each row may still be too much for a page."""

    def heads(self, count=6, T=1100, S=5000, k=16):
        weights = (torch.randn(count, T, k) * 2).softmax(-1).sort(-1, descending=True).values * 0.9
        index = torch.rand(count, T, S).topk(k).indices
        residual = torch.full((count, T), 0.1)
        return tuple(
            AttentionMap(
                "look", "a", "b", "top", {"index": index[n], "weights": weights[n], "residual": residual[n]}, n, keys=S
            )
            for n in range(count)
        )

    def leave(self, monkeypatch, room, maps):
        """So many bytes for the largest weights of each row."""
        monkeypatch.setattr(weights, "MOST_ROOM", room + 4 * weights.FEWER + weights.THUMB**2 * 2 // 3 * maps)

    def test_fewer_weights_of_each_row_are_kept_and_the_others_join_what_is_left(self, monkeypatch):
        heads = self.heads()
        whole = page_data(Trace(maps=heads))
        assert {each["tensors"]["index"]["shape"][1] for each in only(whole)["maps"]} == {16}
        assert "notes" not in only(whole)["about"]
        self.leave(monkeypatch, 200_000, maps=6)
        small = page_data(Trace(maps=heads))
        written = [each["tensors"] for each in only(small)["maps"]]
        [k] = {each["index"]["shape"][1] for each in written}
        assert 1 <= k < 16
        blocks = {part["block"] for each in written for part in each.values()}
        assert sum(len(small.blocks[number]) for number in blocks) <= 200_000
        for map, each in zip(heads, written, strict=True):
            kept, residual = decoded(small, each["weights"]), decoded(small, each["residual"])
            assert np.array_equal(decoded(small, each["index"]), map.tensors["index"][:, :k].numpy())
            assert np.allclose(kept, map.tensors["weights"][:, :k], atol=0.005)
            assert np.allclose(residual, 1 - map.tensors["weights"][:, :k].sum(-1), atol=1e-6)
        [note] = only(small)["about"]["notes"]
        assert note.startswith(
            f"Of the 16 largest weights of each row that the trace holds, the page keeps {k}, and the sum"
        )
        assert "(6 of 6 maps): a page holds at most 64 MB" in note

    def test_maps_that_hold_all_weights_share_the_same_room(self, monkeypatch):
        self.leave(monkeypatch, 30_000, maps=1)
        small = page_data(Trace(maps=(dense(600, 777),)))
        [written] = only(small)["maps"]
        k = written["tensors"]["index"]["shape"][1]
        assert written["kind"] == "top" and 1 <= k < 16
        assert only(small)["about"]["notes"][0].startswith(f"The {k} largest weights of each row are kept")

    def test_maps_that_hold_fewer_of_each_row_keep_them(self, monkeypatch):
        maps = (*self.heads(5), *self.heads(1, k=1))
        self.leave(monkeypatch, 200_000, maps=6)
        page = page_data(Trace(maps=maps))
        [*wide, narrow] = [each["tensors"]["index"]["shape"][1] for each in only(page)["maps"]]
        assert 1 < wide[0] < 16 and narrow == 1
        assert "(5 of 6 maps)" in only(page)["about"]["notes"][0]

    def test_where_one_weight_a_row_is_too_much_the_page_is_refused_in_one_line(self, monkeypatch):
        self.leave(monkeypatch, 10_000, maps=6)
        with pytest.raises(
            SaccadeError, match=r"at most 64 MB, and 6 maps with 6,600 rows need more: save fewer .*head=…"
        ):
            page_data(Trace(maps=self.heads()))

    def test_other_numbers_have_the_same_limit(self, monkeypatch):
        monkeypatch.setattr(page, "LARGEST_PAGE", 10_000)
        lens = Lens("statistics")
        lens.observe(Site("look", "a", "b"), torch.rand(1, 3, 700, 7).softmax(-1))
        with pytest.raises(SaccadeError, match="3 maps with 2,100 rows need more"):
            page_data(lens.trace)


def test_contexts_of_heads_come_back_and_those_of_alignments_come_first():
    signals = {
        "encoder.0.self.context": Signal("source", torch.randn(307, 3, 300)),
        "decoder.0.cross.context": Signal("target", torch.randn(17, 3, 5)),
    }
    own = dense(3, 3, site="encoder.0.self", query="source", key="source")
    small = page_data(Trace(maps=(own,), signals=signals))
    for name, signal in signals.items():
        written = only(small)["signals"][name]["values"]
        assert written["shape"] == list(signal.values.shape)
        assert np.array_equal(decoded(small, written), signal.values.numpy())
    large = only(page_data(Trace(maps=(own, dense(600, 777)), signals=signals)))
    assert list(large["signals"]) == ["decoder.0.cross.context"]
    assert "Left out to keep the page small: encoder.0.self.context." in large["about"]["notes"]


def test_of_many_signals_that_are_left_out_a_few_are_named():
    signals = {f"s{number}": Signal("source", torch.zeros(3, 2**19)) for number in range(9)}
    told = only(page_data(Trace(signals=signals)))["about"]["notes"]
    assert told == ["Left out to keep the page small: s0, s1, s2, s3, s4, s5 and 3 more."]
