"""Subtitles and TextGrids, to the letter."""

import itertools
import json
import re
from pathlib import Path

import pytest

from saccade.data.audio.subtitles import Transcript, srt, text_grid, vtt
from saccade.data.audio.windows import Piece
from saccade.errors import SaccadeError

MOON = Transcript(
    "talk.wav",
    3723.5,
    (
        Piece("we", 0.25, 0.5, 0.4),
        Piece(" saw", 0.5, 1.0, 0.75),
        Piece(' <"it">', 1.0, 1.23456, 1.1),
        Piece(" &", 3722.0, 3722.1, 3722.05),
        Piece(" -->", 3722.1, 3722.6, 3722.4),
    ),
    ("a note",),
)


def test_subrip_numbers_its_segments() -> None:
    assert srt(MOON) == ('1\n00:00:00,250 --> 00:00:01,235\nwe saw <"it">\n\n2\n01:02:02,000 --> 01:02:02,600\n& →\n')


def test_webvtt_writes_marks_as_html_does() -> None:
    assert vtt(MOON) == (
        'WEBVTT\n\n00:00:00.250 --> 00:00:01.235\nwe saw &lt;"it"&gt;\n\n01:02:02.000 --> 01:02:02.600\n&amp; --&gt;\n'
    )


def test_a_short_segment_stays_long_enough_to_be_seen_but_not_into_the_next() -> None:
    blinks = Transcript("x", 9.0, (Piece("a", 1.0, 1.01, 1.0), Piece(" b", 5.0, 5.01, 5.0)))
    assert re.findall(r"--> 00:00:0(\d,\d+)", srt(blinks)) == ["1,300", "5,300"]
    last = Transcript("x", 5.1, (Piece("b", 5.0, 5.01, 5.0),))
    assert "--> 00:00:05,100" in srt(last)


def test_json_holds_words_segments_and_pieces() -> None:
    plain = json.loads(json.dumps(MOON.to_json()))
    assert plain["text"] == 'we saw <"it"> & -->' and plain["seconds"] == 3723.5 and plain["notes"] == ["a note"]
    assert plain["words"][2] == {"text": '<"it">', "start": 1.0, "end": 1.235}
    assert [segment["text"] for segment in plain["segments"]] == ['we saw <"it">', "& -->"]
    assert plain["pieces"][1] == {"text": " saw", "start": 0.5, "end": 1.0, "at": 0.75}


def intervals(grid: str, tier: str) -> list[tuple[float, float, str]]:
    part = grid.split(f'name = "{tier}"')[1].split("item [")[0]
    found = re.findall(r'intervals \[\d+\]:\n +xmin = ([\d.]+)\n +xmax = ([\d.]+)\n +text = "((?:[^"]|"")*)"', part)
    assert f"intervals: size = {len(found)}\n" in part
    return [(float(start), float(end), text.replace('""', '"')) for start, end, text in found]


def test_a_textgrid_has_no_gaps_no_overlaps_and_no_empty_intervals() -> None:
    grid = text_grid(MOON)
    assert grid.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 3723.500\n')
    words = intervals(grid, "words")
    assert words[:4] == [(0, 0.25, ""), (0.25, 0.5, "we"), (0.5, 1.0, "saw"), (1.0, 1.235, '<"it">')]
    assert words[-1] == (3722.6, 3723.5, "")
    for tier in ("segments", "words"):
        found = intervals(grid, tier)
        assert found[0][0] == 0 and found[-1][1] == 3723.5
        assert all(start < end for start, end, _ in found)
        assert all(one[1] == other[0] for one, other in itertools.pairwise(found))


def test_words_without_length_get_a_millisecond_each() -> None:
    flat = Transcript("x", 2.0, tuple(Piece(f" {letter}", 1.0, 1.0, 1.0) for letter in "abc"))
    assert [part for part in intervals(text_grid(flat), "words") if part[2]] == [
        (1.0, 1.001, "a"), (1.001, 1.002, "b"), (1.002, 1.003, "c")
    ]  # fmt: skip


def test_scripts_without_spaces_break_anywhere() -> None:
    letters = tuple(Piece("字", place / 20, (place + 1) / 20, place / 20) for place in range(100))
    lines = srt(Transcript("x", 5.0, letters)).split("\n")
    assert [lines[2], lines[3], lines[7]] == ["字" * 42, "字" * 42, "字" * 16]


@pytest.mark.parametrize("write", [srt, vtt, text_grid])
def test_silence_is_a_file_without_words(write) -> None:
    assert "-->" not in write(Transcript("x", 2.0, ()))


def test_the_ending_decides_and_others_are_refused(tmp_path: Path) -> None:
    for ending, start in ((".srt", "1\n"), (".VTT", "WEBVTT"), (".json", "{"), (".TextGrid", "File type")):
        MOON.save(tmp_path / f"x{ending}")
        assert (tmp_path / f"x{ending}").read_text(encoding="utf-8").startswith(start)
    with pytest.raises(SaccadeError, match=r"x\.ass: expected a file ending in \.srt, \.vtt, \.json or \.TextGrid"):
        MOON.save(tmp_path / "x.ass")
