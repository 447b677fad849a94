"""Files are whole or absent, whatever goes wrong while writing or reading them."""

import errno
import json
import math
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from saccade.errors import InputError, SaccadeError
from saccade.storage import load_tensors, read_json, same_bits, save_tensors, write_bytes, write_json, write_text


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def only_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestWriting:
    def test_a_file_is_written_with_its_folders_and_nothing_is_left_beside_it(self, tmp_path: Path) -> None:
        write_bytes(tmp_path / "a" / "b" / "x.bin", b"\x00\xff")
        assert (tmp_path / "a" / "b" / "x.bin").read_bytes() == b"\x00\xff"
        assert only_files(tmp_path / "a" / "b") == ["x.bin"]

    @pytest.mark.parametrize("call", ["os.fsync", "os.replace", "builtins.open"])
    def test_a_full_disk_leaves_the_old_file_and_says_so(
        self, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x.bin"
        write_bytes(path, b"old")
        with monkeypatch.context() as patched:
            patched.setattr(call, no_space)
            with pytest.raises(SaccadeError, match=r"could not write 5 bytes: No space left on device; .* unchanged"):
                write_bytes(path, b"newer")
        assert path.read_bytes() == b"old"
        assert only_files(tmp_path) == ["x.bin"]

    def test_an_interruption_leaves_the_old_file_and_no_part_of_the_new(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x.bin"
        write_bytes(path, b"old")

        def interrupted(_: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_bytes(path, b"newer")
        assert path.read_bytes() == b"old"
        assert only_files(tmp_path) == ["x.bin"]

    @pytest.mark.parametrize("name", ["file/x.bin", "folder", "n" * 300, "nul\x00byte", "lone\ud800"])
    def test_a_place_that_cannot_be_written_is_one_clear_error(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"in the way")
        (tmp_path / "folder").mkdir()
        with pytest.raises(SaccadeError, match="could not write"):
            write_bytes(tmp_path / name, b"x")

    def test_a_path_without_a_name_is_refused(self) -> None:
        with pytest.raises(SaccadeError, match="name of a file"):
            write_bytes("", b"x")
        with pytest.raises(SaccadeError, match="name of a file"):
            save_tensors("", {"x": torch.zeros(3)}, {})

    @pytest.mark.parametrize("name", ["file/x.bin", "folder", "n" * 300, "nul\x00byte", "lone\ud800"])
    def test_tensors_go_where_they_can_be_written_or_there_is_one_clear_error(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"in the way")
        (tmp_path / "folder").mkdir()
        with pytest.raises(SaccadeError, match="could not write 12 bytes"):
            save_tensors(tmp_path / name, {"x": torch.zeros(3)}, {})
        assert only_files(tmp_path) == ["file", "folder"]

    def test_tensors_may_be_read_by_whom_other_files_may(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_bytes(tmp_path / "x.bin", b"x")
            save_tensors(tmp_path / "x.safetensors", {"x": torch.zeros(3)}, {})
        finally:
            os.umask(before)
        modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("x.bin", "x.safetensors")}
        assert modes == {"x.bin": 0o640, "x.safetensors": 0o640}

    def test_tensors_for_which_a_disk_has_no_room_leave_the_old_ones(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x.safetensors"
        save_tensors(path, {"x": torch.zeros(3)}, {})

        def full(tensors: object, partial: Path, metadata: object) -> None:
            partial.write_bytes(b"half")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

        monkeypatch.setattr("safetensors.torch.save_file", full)
        with pytest.raises(SaccadeError, match=r"could not write 20 bytes: No space left on device; an existing file"):
            save_tensors(path, {"x": torch.ones(5)}, {})
        assert only_files(tmp_path) == ["x.safetensors"]
        assert load_tensors(path)[0]["x"].tolist() == [0.0, 0.0, 0.0]


class TestJson:
    def test_any_text_comes_back_from_json(self, tmp_path: Path) -> None:
        document = {"labels": ["</script>", "😀", "מה", "\ud800", "\n", "\u2028"], "größe": [1, 2.5, None, True]}
        write_json(tmp_path / "x.json", document)
        assert read_json(tmp_path / "x.json") == document

    def test_json_is_written_as_one_reads_it(self, tmp_path: Path) -> None:
        write_json(tmp_path / "x.json", {"label": "größe 年"})
        assert "größe 年" in (tmp_path / "x.json").read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            (b'{"a": 1,\n "b": }', "x.json:2"),
            (b"\xff\xfe", "byte 0xff"),
            (b"[" * 200_000, "nested too deep"),
            (b"1" * 5000, "digit"),
            (b"", "Expecting value"),
        ],
    )
    def test_broken_json_names_the_file_and_the_fault(self, content: bytes, found: str, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(InputError, match=found):
            read_json(tmp_path / "x.json")

    def test_a_missing_file_and_a_folder_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            read_json(tmp_path / "x.json")
        with pytest.raises(InputError, match="readable file"):
            read_json(tmp_path)

    def test_text_keeps_lone_surrogates(self, tmp_path: Path) -> None:
        write_text(tmp_path / "x.txt", "a\ud800b")
        assert (tmp_path / "x.txt").read_text(encoding="utf-8", errors="surrogatepass") == "a\ud800b"


TENSORS = {
    "float": torch.tensor([[0.0, -0.0, math.nan], [math.inf, -math.inf, 1e-45]]),
    "brain": torch.randn(3, 5).bfloat16(),
    "half": torch.randn(7).half(),
    "whole": torch.tensor([-(2**62), 2**62]),
    "truth": torch.tensor([True, False, True]),
    "bytes": torch.arange(256, dtype=torch.uint8),
    "one": torch.tensor(3.25),
    "none": torch.zeros(0, 3),
    "transposed": torch.arange(15.0).view(3, 5).T,
}


class TestTensors:
    def test_tensors_come_back_bit_for_bit_with_their_header(self, tmp_path: Path) -> None:
        header = {"labels": ["</script>", "\ud800", "مرحبا"], "score": -math.inf, "nothing": None}
        save_tensors(tmp_path / "x", TENSORS, header)
        tensors, read = load_tensors(tmp_path / "x")
        assert read == header
        assert tensors.keys() == TENSORS.keys()
        assert all(same_bits(tensors[name], TENSORS[name]) for name in TENSORS)

    def test_tensors_that_share_memory_and_need_gradients_are_stored_in_full(self, tmp_path: Path) -> None:
        whole = torch.randn(3, 5, requires_grad=True)
        save_tensors(tmp_path / "x", {"whole": whole, "part": whole[1:], "wide": whole[:1].expand(7, 5)}, {})
        tensors, _ = load_tensors(tmp_path / "x")
        assert torch.equal(tensors["part"], whole[1:])
        assert tensors["wide"].shape == (7, 5)
        assert not tensors["whole"].requires_grad

    def test_a_file_without_tensors_is_a_file(self, tmp_path: Path) -> None:
        save_tensors(tmp_path / "x", {}, ["only", "words"])
        assert load_tensors(tmp_path / "x") == ({}, ["only", "words"])

    def test_the_same_content_gives_the_same_bytes(self, tmp_path: Path) -> None:
        save_tensors(tmp_path / "x", TENSORS, {"a": 1})
        save_tensors(tmp_path / "y", TENSORS, {"a": 1})
        assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()

    def test_a_header_that_is_no_plain_data_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SaccadeError, match="plain data"):
            save_tensors(tmp_path / "x", {}, {"model": object()})
        assert only_files(tmp_path) == []

    def test_every_cut_of_a_file_is_refused(self, tmp_path: Path) -> None:
        save_tensors(tmp_path / "x", {"weights": torch.randn(3, 5)}, {"labels": ["a", "b"]})
        content = (tmp_path / "x").read_bytes()
        for size in range(len(content)):
            (tmp_path / "cut").write_bytes(content[:size])
            with pytest.raises(InputError):
                load_tensors(tmp_path / "cut")

    def test_no_flipped_bit_goes_unnoticed(self, tmp_path: Path) -> None:
        tensors = {"weights": torch.randn(3, 5), "index": torch.arange(7)}
        save_tensors(tmp_path / "x", tensors, {"labels": ["a", "b"]})
        content = (tmp_path / "x").read_bytes()
        for place in range(len(content)):
            flipped = bytearray(content)
            flipped[place] ^= 1 << (place % 8)
            (tmp_path / "flipped").write_bytes(flipped)
            try:
                read, header = load_tensors(tmp_path / "flipped")
            except InputError:
                continue
            # Only blanks of the file's own JSON may change, which say nothing.
            assert header == {"labels": ["a", "b"]}
            assert read.keys() == tensors.keys()
            assert all(same_bits(read[name], tensors[name]) for name in tensors)

    def test_a_foreign_file_is_refused(self, tmp_path: Path) -> None:
        save_file({"weights": torch.zeros(3)}, tmp_path / "foreign")
        with pytest.raises(InputError, match="written by saccade"):
            load_tensors(tmp_path / "foreign")
        (tmp_path / "text").write_text("hello, this is no safetensors file at all")
        with pytest.raises(InputError, match="damaged"):
            load_tensors(tmp_path / "text")

    def test_a_header_without_its_checksum_is_refused(self, tmp_path: Path) -> None:
        save_file({"weights": torch.zeros(3)}, tmp_path / "x", metadata={"saccade": json.dumps({})})
        with pytest.raises(InputError, match="checksum"):
            load_tensors(tmp_path / "x")

    def test_a_missing_file_and_a_folder_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            load_tensors(tmp_path / "x")
        with pytest.raises(InputError, match="a folder"):
            load_tensors(tmp_path)


def test_bits_are_the_same_only_when_all_of_them_are() -> None:
    assert same_bits(torch.tensor([math.nan]), torch.tensor([math.nan]))
    assert not same_bits(torch.tensor([math.nan]), torch.tensor([0.5]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([math.inf]), torch.tensor([torch.finfo(torch.float32).max]))
    assert not same_bits(torch.zeros(3), torch.zeros(3).int())
    assert not same_bits(torch.zeros(3), torch.zeros(3, 1))
