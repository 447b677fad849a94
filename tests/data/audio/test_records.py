"""Recordings with transcripts from every layout of files and from memory; a faulty one is named, or dropped and counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saccade.data.audio.config import AudioConfig, SoundFeatures
from saccade.data.audio.given import GivenFrames
from saccade.data.audio.recordings import Recording
from saccade.data.audio.records import SpeechColumns, SpeechData, Spoken, load_speech, notes_on, read_speech, speech_of
from saccade.data.reading import FaultCounts
from saccade.data.splits import fingerprint
from saccade.errors import InputError
from tests.data.audio.recorded import sound, wav, write

NOTHING = Path()


def data(train: Any = "all", **fields: Any) -> SpeechData:
    return SpeechData(train=str(train), **fields)


def texts(records: list[Spoken]) -> list[tuple[str, str | None, str]]:
    return [(record.source.name, record.target, record.speaker) for record in records]


def three(folder: Path) -> None:
    for number, count in enumerate((801, 1203, 2407)):
        write(folder / f"{number}.wav", count, seed=number)


# Layouts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "suffix"),
    [
        (("audio", "text", "speaker"), "csv"),
        (("client_id", "path", "sentence"), "tsv"),
        (("wav", "spk", "transcript"), "jsonl"),
        (("Text", "File", "Speaker_ID"), "csv"),
    ],
)
def test_columns_are_found_by_their_usual_names(header, suffix, tmp_path):
    three(tmp_path)
    roles = {"audio": ("audio", "path", "wav", "file"), "text": ("text", "sentence", "transcript")}
    rows = []
    for number in range(3):
        role = [next((role for role, names in roles.items() if name.lower() in names), "speaker") for name in header]
        rows.append(
            [{"audio": f"{number}.wav", "text": f"say  {number}", "speaker": f"s{number % 2}"}[each] for each in role]
        )
    path = tmp_path / f"list.{suffix}"
    if suffix == "jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(header, row))) for row in rows))
    else:
        path.write_text("\n".join(("," if suffix == "csv" else "\t").join(row) for row in [header, *rows]))
    found = read_speech(path, data())
    assert texts(found) == [("0.wav", "say 0", "s0"), ("1.wav", "say 1", "s1"), ("2.wav", "say 2", "s0")]
    assert [len(record.source.read()) for record in found] == [801, 1203, 2407]


def test_columns_that_are_named_go_before_usual_ones(tmp_path):
    three(tmp_path)
    (tmp_path / "list.csv").write_text("file,text,phones,who,path\n0.wav,word,w er d,a,x\n1.wav,two,t uw,b,y\n")
    columns = SpeechColumns(audio="file", text="phones", speaker="who")
    assert texts(read_speech(tmp_path / "list.csv", data(columns=columns))) == [
        ("0.wav", "w er d", "a"), ("1.wav", "t uw", "b"),
    ]  # fmt: skip
    (tmp_path / "list.csv").write_text("file,phones\n0.wav,w er d\n")
    message = r"list\.csv: expected a column text \(text, sentence, .*found the columns 'file', 'phones'"
    with pytest.raises(InputError, match=message):
        read_speech(tmp_path / "list.csv", data())


def test_a_manifest_names_stretches_and_times_and_another_folder(tmp_path):
    write(tmp_path / "sounds" / "talk.wav", 8000)
    rows = [
        {"audio": "talk.wav#0.25-0.5", "text": "ab", "times": [["a", 0.0, 0.1], ["b", 0.1, 0.25]]},
        {"audio": "talk.wav#0.5-", "text": "b", "times": None},
    ]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_speech(tmp_path / "list.jsonl", data(recordings="sounds"))
    assert [record.source.seconds for record in found] == [0.25, 0.5]
    assert [record.times for record in found] == [(("a", 0.0, 0.1), ("b", 0.1, 0.25)), None]
    (tmp_path / "list.jsonl").write_text(json.dumps({**rows[0], "times": [["a", 0.3, 0.1]]}))
    with pytest.raises(InputError, match=r"list\.jsonl:1: times: expected a list of \[symbol, start, end\]"):
        read_speech(tmp_path / "list.jsonl", data(recordings="sounds"))
    for wrong in ("[" * 100_000, f'[["a", 0, {"9" * 400}]]'):  # too deep, and no float
        (tmp_path / "list.jsonl").write_text(json.dumps({**rows[0], "times": wrong}))
        with pytest.raises(InputError, match="times: expected a list"):
            read_speech(tmp_path / "list.jsonl", data(recordings="sounds"))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_of_a_start_and_an_end_or_a_duration_read_that_stretch(suffix, tmp_path):
    write(tmp_path / "talk.wav", 2400, seed=3)
    rows = [
        {"audio": "talk.wav", "text": "first", "start": 0.05, "end": 0.125},
        {"audio": "talk.wav", "text": "last", "start": 0.2, "end": ""},
        {"audio": "talk.wav", "text": "all", "start": "", "end": ""},
    ]
    spans = [(0.05, 0.125), (0.2, 0.3), (0.0, 0.3)]
    table = pd.DataFrame(rows)
    path = tmp_path / f"list.{suffix}"
    path.write_text(table.to_csv(index=False) if suffix == "csv" else "\n".join(map(json.dumps, rows)))
    lengths = [{"audio_filepath": "talk.wav", "text": "first", "offset": 0.05, "duration": 0.075}]
    (tmp_path / "lengths.jsonl").write_text("\n".join(map(json.dumps, lengths)))
    (tmp_path / "whole.jsonl").write_text(json.dumps({"audio_filepath": "talk.wav", "text": "all", "duration": 0.1}))

    def of(records: list[Spoken]) -> list[tuple[float, float]]:
        return [(record.source.start, round(record.source.end, 6)) for record in records]

    assert of(read_speech(path, data())) == spans
    assert of(read_speech(tmp_path / "lengths.jsonl", data())) == spans[:1]
    assert of(read_speech(tmp_path / "whole.jsonl", data())) == spans[2:]  # a duration alone cuts nothing
    table["audio"] = str(tmp_path / "talk.wav")
    table = table.replace("", float("nan"))
    assert of(speech_of(table, data())) == spans == of(speech_of(table.to_dict("records"), data()))


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("soon", "0.2", r"list\.csv:2: start: expected seconds, or nothing, found 'soon'"),
        ("0.2", "0.1", "expected seconds, and an end after its start, found 0.2 to 0.1"),
        ("0.1", "7", "expected seconds within its 0.3, found 0.1 to 7"),
    ],
)
def test_a_stretch_that_is_none_of_its_recording_is_named(start, end, message, tmp_path):
    write(tmp_path / "talk.wav", 2400, seed=3)
    path = tmp_path / "list.csv"
    path.write_text(f"audio,text,start,end\ntalk.wav,first,{start},{end}\n")
    with pytest.raises(InputError, match=message):
        read_speech(path, data())


def test_a_kaldi_folder_is_read_with_and_without_segments(tmp_path):
    three(tmp_path / "wav")
    (tmp_path / "wav.scp").write_text("u0 wav/0.wav\nu1\twav/1.wav\nu2 sox wav/2.wav -t wav - |\n")
    (tmp_path / "text").write_text("u0 NO SUCH\nu1\tSAY TWO\n")
    (tmp_path / "utt2spk").write_text("u0 anna\nu1 ben\n")
    assert texts(read_speech(tmp_path, data())) == [("wav/0.wav", "NO SUCH", "anna"), ("wav/1.wav", "SAY TWO", "ben")]
    (tmp_path / "text").write_text("u2 A COMMAND\n")
    with pytest.raises(
        InputError, match=r"wav\.scp:1: u2: expected a path, found a command: .*commands .* are not run"
    ):
        read_speech(tmp_path, data())
    (tmp_path / "text").write_text("s1 ONE\ns2 TWO\n")
    (tmp_path / "segments").write_text("s1 u1 0.05 0.1\ns2 u0 0.025 -1\n")
    found = read_speech(tmp_path, data())
    assert [(len(record.source.read()), record.speaker) for record in found] == [(400, ""), (601, "")]
    (tmp_path / "segments").write_text("s1 u1 0.05 0.1\ns2 u0 0.025\n")
    with pytest.raises(InputError, match=r"text:2: segments: expected a recording, its start and end of s2"):
        read_speech(tmp_path, data())


def test_a_librispeech_folder_knows_its_speakers(tmp_path):
    for name, count in (("7/1/7-1-0000", 801), ("7/1/7-1-0001", 903), ("26/4/26-4-0000", 1207)):
        write(tmp_path / f"{name}.wav", count)
    (tmp_path / "7/1/7-1.trans.txt").write_text("7-1-0000 THE FIRST\n7-1-0001 AND THEN\n")
    (tmp_path / "26/4/26-4.trans.txt").write_text("26-4-0000 ANOTHER\n26-4-0001 MISSING\n")
    with pytest.raises(
        InputError, match=r"26-4\.trans\.txt:2: audio: expected a recording in .*found no '26/4/26-4-0001\.flac'"
    ):
        read_speech(tmp_path, data())
    dropped = FaultCounts()
    found = read_speech(tmp_path, data(faults="drop"), dropped)
    assert texts(found) == [
        ("26/4/26-4-0000.wav", "ANOTHER", "26"),
        ("7/1/7-1-0000.wav", "THE FIRST", "7"),
        ("7/1/7-1-0001.wav", "AND THEN", "7"),
    ]
    assert dropped.counts == {"without its recording": 1}


def test_a_folder_of_common_voice_is_read_split_by_split(tmp_path):
    for number in range(4):
        write(tmp_path / "clips" / f"{number}.wav", 801 + number, seed=number)
    for name, numbers in (("train", (0, 1)), ("dev", (2,)), ("test", (3,))):
        rows = [f"speaker{number}\t{number}.wav\tsay {number}\t2" for number in numbers]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["client_id\tpath\tsentence\tup_votes", *rows]) + "\n")
    folder = str(tmp_path)
    splits = load_speech(data(folder, valid=folder, test=folder), NOTHING, seed=1)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [2, 1, 1]
    assert splits.valid[0].target == "say 2" and splits.valid[0].speaker == "speaker2"
    table = load_speech(
        data(tmp_path / "train.tsv", valid=str(tmp_path / "dev.tsv"), test=str(tmp_path / "test.tsv")), NOTHING, 1
    )
    assert fingerprint(table) == fingerprint(splits)


def test_a_folder_of_recordings_with_a_text_beside_each(tmp_path):
    three(tmp_path / "a")
    for number in (0, 2):
        (tmp_path / "a" / f"{number}.txt").write_text(f"say\n{number}\n")
    with pytest.raises(InputError, match=r"expected the transcript of a/1\.wav, found no 1\.txt"):
        read_speech(tmp_path, data())
    assert texts(read_speech(tmp_path, data(faults="drop"), FaultCounts())) == [
        ("a/0.wav", "say 0", ""),
        ("a/2.wav", "say 2", ""),
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"expected recordings .*found no file of such a name"):
        read_speech(tmp_path / "empty", data())


# Splits ---------------------------------------------------------------------------------------------------------------


def test_a_speakers_recordings_stay_on_one_side(tmp_path):
    rows = ["audio,text,speaker"]
    for number in range(40):
        write(tmp_path / f"{number}.wav", 801 + number, seed=number)
        rows.append(f"{number}.wav,say {number},s{number % 8}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    splits = load_speech(data(tmp_path / "list.csv", hold_out=0.2), NOTHING, seed=3)
    sides = [{record.speaker for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    assert sum(map(len, sides)) == 8 and len(splits.valid) == 10
    assert "in 2 groups held out of train" in splits.notes[0] + splits.notes[1]
    assert fingerprint(splits) == fingerprint(load_speech(data(tmp_path / "list.csv", hold_out=0.2), NOTHING, seed=3))


def test_a_column_of_splits_says_which_rows_are_read(tmp_path):
    rows = ["audio,text,part"]
    for number, part in enumerate(("train", "dev", "Test", "train", "train", "unused")):
        write(tmp_path / f"{number}.wav", 801 + number, seed=number)
        rows.append(f"{number}.wav,say {number},{part}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    path = str(tmp_path / "list.csv")
    settings = data(path, valid=path, test=path, columns=SpeechColumns(split="part"))
    splits = load_speech(settings, NOTHING, seed=1)
    assert [[r.target for r in part] for part in (splits.train, splits.valid, splits.test)] == [
        ["say 0", "say 3", "say 4"], ["say 1"], ["say 2"],
    ]  # fmt: skip
    assert [record.target for record in read_speech(tmp_path / "list.csv", settings)] == ["say 2"]


def test_other_rates_and_channels_are_stated(tmp_path):
    write(tmp_path / "0.wav", 801)
    (tmp_path / "1.wav").write_bytes(wav(np.stack([sound(1600), sound(1600, 2)], 1), 16_000))
    write(tmp_path / "2.wav", 1103, rate=11_025)
    (tmp_path / "list.csv").write_text("audio,text\n0.wav,a\n1.wav,b\n2.wav,c\n")
    path = str(tmp_path / "list.csv")
    splits = load_speech(data(path, valid=path, test=path), NOTHING, seed=1)
    assert f"{path}: 1 of 8,000 Hz, 1 of 11,025 Hz resampled to 16,000 Hz" in splits.notes
    assert f"{path}: the channels of 1 recordings are mixed into one" in splits.notes
    quiet = load_speech(data(path, valid=path, test=path, audio=AudioConfig(rate=8000)), NOTHING, seed=1)
    assert not any("1 of 8,000" in note for note in quiet.notes)


def test_a_predicted_recording_says_how_it_is_read():
    both = Recording.in_memory((np.stack([sound(1600), sound(1600, 2)], 1), 44_100), "both")
    file = Recording.in_memory(wav(np.stack([sound(1600), sound(1600, 2)], 1), 44_100), "file")
    for source in (both, file):
        assert notes_on(source, data()) == ("resampled from 44,100 to 16,000 Hz", "2 channels mixed into one")
    assert notes_on(Recording.in_memory((sound(801), 16_000), "plain"), data()) == ()
    assert notes_on(GivenFrames.in_memory(np.ones((3, 2)), "frames"), given()) == ()


# Faults ---------------------------------------------------------------------------------------------------------------


FAULTY = {
    "empty.wav": b"",
    "page.wav": b"<html>",
    "cut.wav": wav(sound(901))[:-500],
    "silent.wav": wav(np.zeros(901, np.int16)),
    "nan.wav": wav(np.array([0.1, np.nan] * 300, "<f4"), tag=3, bits=32),
    "fast.wav": wav(sound(901), rate=3_000_000),
}


def test_each_faulty_recording_is_named_or_dropped_and_counted(tmp_path):
    three(tmp_path)
    names = ["0.wav", *FAULTY, "gone.wav", "1.wav", "2.wav", "0.wav#0.05-0.2", "2.wav"]
    for name, content in FAULTY.items():
        (tmp_path / name).write_bytes(content)
    rows = [*(f"{name},say it" for name in names[:-1]), "2.wav,", "a\0b.wav,say", ",say"]
    (tmp_path / "list.csv").write_text("\n".join(["audio,text", *rows]))
    path = str(tmp_path / "list.csv")
    dropped = FaultCounts()
    found = read_speech(tmp_path / "list.csv", data(path, faults="drop"), dropped)
    assert [record.source.name for record in found] == ["0.wav", "1.wav", "2.wav"]
    assert dropped.counts == {
        "no recording, or one that cannot be read": 4,  # empty, a page, the rate, a stretch beyond the end
        "a damaged recording": 2,
        "a silent recording": 1,
        "without its recording": 2,
        "without a transcript": 1,
        "a NUL character": 1,
    }
    for name in ("empty.wav", "page.wav", "cut.wav", "fast.wav", "gone.wav", "0.wav#0.05-0.2"):
        (tmp_path / "one.csv").write_text(f"audio,text\n0.wav,a\n{name},b\n1.wav,c\n")
        with pytest.raises(InputError, match=rf"{name.partition('#')[0]}.*data\.faults: drop") as error:
            load_speech(data(tmp_path / "one.csv"), NOTHING, seed=1)
        assert "\n" not in str(error.value)


def test_recordings_that_are_too_long_are_an_error_or_left_out_of_training(tmp_path):
    three(tmp_path)
    (tmp_path / "list.csv").write_text("audio,text\n" + "\n".join(f"{number}.wav,say {number}" for number in range(3)))
    path = str(tmp_path / "list.csv")
    short = {"max_seconds": 0.2}
    with pytest.raises(InputError, match=r"list\.csv:4: expected at most 0\.2 s, found 0\.3 s: 2\.wav .*too_long"):
        load_speech(data(path, audio=AudioConfig(**short)), NOTHING, seed=1)
    splits = load_speech(
        data(path, valid=path, test=path, audio=AudioConfig(**short, too_long="drop")), NOTHING, seed=1
    )
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [2, 3, 3]
    assert any("1 a recording longer than audio.max_seconds (first: 4)" in note for note in splits.notes)


def test_a_recording_of_days_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    three(tmp_path)
    (tmp_path / "list.csv").write_text("audio,text\n0.wav,a\n2.wav,b\n")
    monkeypatch.setenv("SACCADE_MAX_SAMPLES", "1500")
    dropped = FaultCounts()
    found = read_speech(tmp_path / "list.csv", data(faults="drop"), dropped)
    assert [record.target for record in found] == ["a"]
    assert dropped.counts == {"no recording, or one that cannot be read": 1}
    with pytest.raises(InputError, match=r"2\.wav: expected at most 0 s at 8,000 Hz.*SACCADE_MAX_SAMPLES"):
        read_speech(tmp_path / "list.csv", data())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"augment": {"speeds": []}}, "speeds to be different numbers"),
        ({"augment": {"speeds": [1.0, 9.0]}}, r"from 0\.25 to 4, found"),
        (
            {"augment": {"speeds": [0.9, 1.0]}, "features": {"kind": "given"}},
            "augment.speeds to be left out with given features",
        ),
        ({"features": {"archive": "a.npz"}}, "archive to be left out unless kind is given"),
        ({"features": {"high": 9000}}, "high to be at most half of audio.rate=16000"),
        ({"features": {"kind": "mfcc", "mels": 9}}, "coefficients to be from 1 to mels=9"),
        ({"features": {"deltas": 3}}, "deltas"),
        ({"audio": {"rate": 0}}, "rate to be from 1,000"),
        ({"max_length": 0}, "max_length to be at least 1"),
        ({"columns": {"audio": "a", "text": "a"}}, "text to be another column than audio"),
    ],
)
def test_settings_that_do_not_fit_are_refused(fields, message):
    from saccade.recipes.located import locate
    from saccade.recipes.schema import build

    with pytest.raises(InputError, match=message):
        build(SpeechData, locate({"train": "list.csv", **fields}, "recipe"), "data")


# Given frames ---------------------------------------------------------------------------------------------------------


def tables(count: int, width: int = 3) -> list[np.ndarray]:
    return [np.random.RandomState(n).standard_normal((4 + 3 * n, width)).astype(np.float32) for n in range(count)]


def given(**features: Any) -> SpeechData:
    return data(features=SoundFeatures(kind="given", **features))


def test_frames_come_from_a_file_of_each_recording(tmp_path):
    for number, table in enumerate(tables(3)):
        np.save(tmp_path / f"{number}.npy", table)
    (tmp_path / "list.tsv").write_text("file\ttext\n0.npy\ta\n1.npy\tb\n2.npy\tc\n")
    found = read_speech(tmp_path / "list.tsv", given())
    for record, table in zip(found, tables(3)):
        np.testing.assert_array_equal(record.source.read(), table)
    assert [(record.source.count, record.source.width) for record in found] == [(4, 3), (7, 3), (10, 3)]
    (tmp_path / "1.txt").write_text("b")
    assert [record.target for record in read_speech(tmp_path, replace(given(), faults="drop"), FaultCounts())] == ["b"]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_frames_come_from_an_archive_by_name(suffix, tmp_path):
    named = {f"u{number}": table for number, table in enumerate(tables(3))}
    if suffix == "npz":
        np.savez_compressed(tmp_path / "all.npz", **named)
    else:
        from safetensors.numpy import save_file

        save_file(named, tmp_path / "all.safetensors")
    (tmp_path / "list.csv").write_text("utt,text,speaker\nu2,a,x\nu0,b,y\n")
    found = read_speech(tmp_path / "list.csv", given(archive=f"all.{suffix}"))
    assert texts(found) == [("u2", "a", "x"), ("u0", "b", "y")]
    np.testing.assert_array_equal(found[0].source.read(), named["u2"])
    assert len({record.source for record in found}) == 2
    (tmp_path / "list.csv").write_text("utt,text\nu7,a\n")
    with pytest.raises(InputError, match=rf"all\.{suffix}: u7: expected one of its 3 arrays, found no 'u7'"):
        read_speech(tmp_path / "list.csv", given(archive=f"all.{suffix}"))


def test_frames_of_one_array_are_those_of_the_rows_whatever_rows_are_read(tmp_path):
    parts = tables(4)
    offsets = np.cumsum([0, *map(len, parts)])
    np.savez_compressed(tmp_path / "all.npz", feats=np.concatenate(parts).astype(np.float16), offsets=offsets)
    rows = ["utt,text,split", "a,one,train", "b,two,test", "c,,train", "d,four,test"]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    settings = data(columns=SpeechColumns(split="split"), features=SoundFeatures(kind="given", archive="all.npz"))
    found = read_speech(tmp_path / "list.csv", settings)
    assert texts(found) == [("b", "two", ""), ("d", "four", "")]
    np.testing.assert_allclose(found[1].source.read(), parts[3], atol=1e-2)
    (tmp_path / "list.csv").write_text("\n".join(rows[:-1]))
    with pytest.raises(InputError, match=r"list\.csv: expected 4 rows, one for each recording of .*all\.npz, found 3"):
        read_speech(tmp_path / "list.csv", settings)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"feats": np.zeros((5, 2)), "offsets": np.array([0, 3])},
            "offsets: expected growing numbers from 0 to the rows",
        ),
        ({"feats": np.zeros((5, 2)), "offsets": np.array([0, 3, 3, 5])}, "or one without a row"),
        ({"feats": np.zeros(5), "offsets": np.array([0, 5])}, "found other shapes"),
        ({"a": np.array([{}], dtype=object)}, "all.npz: a: expected numbers, found object"),
        ({"a": np.zeros((2, 3, 4))}, r"all.npz: a: expected frames \[L, D\], found the shape \[2, 3, 4\]"),
        ({"a": np.zeros((0, 3))}, r"the shape \[0, 3\]"),
        ({"a": np.full((2, 3), np.nan)}, "a: expected finite numbers, found nan in frame 0"),
    ],
)
def test_a_faulty_archive_is_refused(arrays, message, tmp_path):
    np.savez(tmp_path / "all.npz", **arrays)
    (tmp_path / "list.csv").write_text("id,text\na,say\n")
    with pytest.raises(InputError, match=message):
        read_speech(tmp_path / "list.csv", data(faults="drop", features=SoundFeatures(kind="given", archive="all.npz")))


def test_a_damaged_file_of_frames_is_refused(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros((5, 3)))
    content = (tmp_path / "0.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-9])
    (tmp_path / "text.npy").write_bytes(b"nothing of the kind")
    (tmp_path / "all.npz").write_bytes(content)
    np.savez(tmp_path / "archive.npz", a=np.zeros((2, 2)))
    for name, message in (
        ("cut.npy", "damaged"),
        ("text.npy", "found another kind of file"),
        ("archive.npz", "features.archive"),
        ("no.npy", "data.recordings"),
    ):
        (tmp_path / "list.csv").write_text(f"file,text\n0.npy,a\n{name},b\n")
        with pytest.raises(InputError, match=rf"{name}.*{message}"):
            read_speech(tmp_path / "list.csv", given())
    for wrong in (b"nothing of the kind", write(tmp_path / "0.wav", 801).read_bytes()):
        with pytest.raises(InputError, match=r"expected frames .* found another kind of file"):
            GivenFrames.in_memory(wrong, "input 1")
    with pytest.raises(InputError, match=r"all\.npz: expected an \.npz archive, found a damaged one"):
        read_speech(tmp_path / "list.csv", given(archive="all.npz"))


# Memory ---------------------------------------------------------------------------------------------------------------


def test_records_come_from_lists_dicts_and_tables(tmp_path):
    path = write(tmp_path / "0.wav", 801)
    samples = (sound(1203, 1), 8000)
    pairs = [(str(path), "one"), (samples, "two", "ann"), (path.read_bytes(), "three", None, [["t", 0, 0.1]])]
    found = speech_of(pairs, data())
    assert [(record.target, record.speaker, record.times) for record in found] == [
        ("one", "", None), ("two", "ann", None), ("three", "", (("t", 0.0, 0.1),)),
    ]  # fmt: skip
    assert found[0].source == found[2].source and len(found[1].source.read()) == 1203
    dicts = [{"path": str(path), "sentence": "one"}, {"audio": samples, "text": "two", "speaker": 7}]
    assert [(record.target, record.speaker) for record in speech_of(dicts, data())] == [("one", ""), ("two", "7")]
    columns = {"audio": [str(path), samples], "text": ["one", "two"]}
    for table in (columns, pd.DataFrame({"audio": [str(path)] * 2, "text": ["one", "two"], "speaker": ["a", "b"]})):
        assert [record.target for record in speech_of(table, data())] == ["one", "two"]
    assert speech_of(found, data()) == found


def test_faulty_records_in_memory_are_named_or_counted():
    good = ((sound(801), 8000), "say")
    for bad, message in (
        ((sound(801), "say"), "record 2|row 2"),
        (("no.wav", "say"), "no.wav"),
        ((good[0], 7), "expected a string"),
        ((good[0], " "), "expected a text, found only spaces"),
        ("say", "recording, text"),
        ({"text": "say"}, "expected a recording, found nothing"),
    ):
        with pytest.raises(InputError, match=message):
            speech_of([good, bad], data())
        counts = FaultCounts()
        assert len(speech_of([good, bad], data(), counts)) == 1 and len(counts) == 1
    with pytest.raises(InputError, match="expected columns of recordings and transcripts, found the columns 'a', 'b'"):
        speech_of({"a": [1], "b": [2]}, data())


def test_frames_in_memory_are_taken_where_they_are_given():
    table = tables(2)[1]
    (record,) = speech_of([(table, "say")], given())
    assert isinstance(record.source, GivenFrames)
    np.testing.assert_array_equal(record.source.read(), table)
    with pytest.raises(InputError, match="an array without its rate"):
        speech_of([(table, "say")], data())


def test_a_record_is_written_out_without_its_samples():
    from dataclasses import asdict

    record = Spoken(Recording.in_memory((sound(801), 8000), "clip"), "say", "ann", (("s", 0.0, 0.1),))
    assert json.loads(json.dumps(asdict(record)))["source"] == {"digest": record.source.digest, "name": "clip"}
    assert record.group == "ann" and Spoken(record.source, "say").group is None
