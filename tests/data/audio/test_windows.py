"""Windows overlap, and their transcripts become one where both heard the same."""

import itertools
import math

import pytest

from saccade.data.audio.windows import (
    Piece,
    Stretch,
    join,
    lines_of,
    segments_of,
    stitch,
    windows,
    without_repeats,
    words_of,
)
from saccade.errors import SaccadeError


def spoken(text: str, start: float = 0.0, each: float = 0.1) -> list[Piece]:
    """Characters, one after the other."""
    return [
        Piece(letter, start + number * each, start + (number + 1) * each, start + (number + 0.5) * each)
        for number, letter in enumerate(text)
    ]


def said(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


class TestWindows:
    def test_a_short_recording_is_one_window(self) -> None:
        assert windows(7.5, 10, 2) == [(0.0, 7.5)]
        assert windows(10, 10, 2) == [(0.0, 10.0)]

    def test_each_begins_before_the_last_one_ended_and_the_last_ends_with_the_recording(self) -> None:
        assert windows(25, 10, 2) == [(0.0, 10.0), (8.0, 18.0), (15.0, 25.0)]
        assert windows(26, 10, 2) == [(0.0, 10.0), (8.0, 18.0), (16.0, 26.0)]
        assert windows(10.5, 10, 0) == [(0.0, 10.0), (0.5, 10.5)]

    @pytest.mark.parametrize("seconds", [20.01, 36.0, 3600.0, 3599.97])
    def test_they_cover_all_of_it(self, seconds: float) -> None:
        found = windows(seconds, 20, 4)
        assert found[0][0] == 0 and found[-1][1] == pytest.approx(seconds)
        for (_, end), (start, _) in itertools.pairwise(found):
            assert end - start >= 4 - 1e-9
        assert all(end - start == pytest.approx(20) for start, end in found)
        assert len(found) == math.ceil((seconds - 4) / 16)

    @pytest.mark.parametrize(
        ("length", "overlap"), [(0, 0), (-1, 0), (10, 5.1), (10, -1), (math.nan, 1), (math.inf, 1)]
    )
    def test_lengths_that_leave_nothing_are_refused(self, length: float, overlap: float) -> None:
        with pytest.raises(SaccadeError, match="overlap of at most half"):
            windows(25, length, overlap)


class TestStitching:
    """What was said: "we saw the moon rise today", a character each 0.1 s; both windows heard 1.0 to 1.8 s."""

    WHOLE = "we saw the moon rise today"

    def halves(self, before: str, after: str, shift: float = 0.0) -> str:
        """The first window wrote from 0 s on, the second from 1 s on."""
        return said(stitch(spoken(before), spoken(after, 1.0 + shift), 1.0, 1.8))

    def test_what_both_wrote_is_written_once(self) -> None:
        assert self.halves(self.WHOLE[:18], self.WHOLE[10:]) == self.WHOLE

    def test_times_that_differ_a_little_are_the_same_look(self) -> None:
        for shift in (-0.12, 0.12):
            assert self.halves(self.WHOLE[:18], self.WHOLE[10:], shift) == self.WHOLE

    def test_what_a_window_wrote_at_its_edges_is_not_believed(self) -> None:
        assert self.halves(self.WHOLE[:17] + "id", "x" + self.WHOLE[11:]) == self.WHOLE
        assert self.halves(self.WHOLE[:16] + "zz", "qq" + self.WHOLE[12:]) == self.WHOLE

    def test_they_are_joined_next_to_the_middle_of_the_overlap(self) -> None:
        before, after = spoken(self.WHOLE[:18]), spoken(self.WHOLE[10:], 1.0)
        joined = stitch(before, after, 1.0, 1.8)
        changes = [place for place, piece in enumerate(joined) if not any(piece is mine for mine in before)]
        assert changes[0] in (14, 15), "characters 13 and 14 lie on either side of second 1.4"
        assert all(any(piece is other for other in after) for piece in joined[changes[0] :])

    def test_the_same_word_at_another_time_is_another_word(self) -> None:
        # "no" is said at 1.0 and again at 1.6 s: four times in all, of which the windows heard two each.
        before = [*spoken("no ", 0.0), *spoken("no ", 1.0)]
        after = [*spoken("no ", 1.6), *spoken("no", 2.2)]
        assert said(stitch(before, after, 1.0, 1.8)) == "no no no no"

    def test_one_equal_letter_does_not_outweigh_a_run_of_them(self) -> None:
        before = [*spoken("abc", 1.0), *spoken("x", 1.4), *spoken("qq", 1.5)]
        after = [*spoken("abc", 1.0), *spoken("mn", 1.3), *spoken("x", 1.5), *spoken("z", 1.8)]
        assert said(stitch(before, after, 1.0, 1.8)) == "abcmnxz"

    def test_windows_that_agree_on_nothing_are_parted_in_the_middle(self) -> None:
        before, after = spoken("aaa bbbb", 1.0), spoken("ccc dddd", 1.0)
        assert said(stitch(before, after, 1.0, 1.8)) == "aaa dddd"
        assert said(stitch(spoken("aaaaaaaa", 1.0), spoken("bb bbbbb", 1.0), 1.0, 1.8)) == "aaaa bbbb"
        assert said(stitch(spoken("aaaaaaaa", 1.0), spoken("bbbbbbbb", 1.0), 1.0, 1.8)) == "aaaabbbb", (
            "no spaces at all"
        )

    def test_silence_on_either_side_leaves_what_there_is(self) -> None:
        assert said(stitch([], spoken("abc", 1.0), 1.0, 1.8)) == ""
        assert said(stitch([], spoken("abc", 1.5), 1.0, 1.8)) == "abc"
        assert said(stitch(spoken("abc", 0.2), [], 1.0, 1.8)) == "abc"

    def test_windows_of_a_recording_become_the_recording(self) -> None:
        text = "the quick brown fox jumps over the lazy dog and the cat sleeps"
        letters = spoken(text)
        parts = []
        for start, end in windows(len(text) / 10, 2.0, 0.7):
            inside = [letter for letter in letters if start <= letter.start + 1e-9 and letter.end <= end + 1e-9]
            parts.append(((start, end), inside))
        assert len(parts) > 3
        assert join(parts) == letters

    def test_silence_in_the_first_windows_is_skipped(self) -> None:
        assert said(join([((0, 2), []), ((1.5, 3.5), spoken("ab", 2.5)), ((3, 5), [])])) == "ab"


class TestRepeats:
    def test_what_a_network_wrote_again_after_going_back_is_left_out(self) -> None:
        lost = [*spoken("abcdefg"), *spoken("defg", 0.3), *spoken("defg", 0.33), *spoken("hi", 0.7)]
        assert said(without_repeats(lost)) == "abcdefghi"

    def test_equal_letters_of_one_moment_stay(self) -> None:
        all_ = [Piece("a", 0.0, 0.2, 0.1), Piece("l", 0.2, 0.4, 0.3), Piece("l", 0.2, 0.4, 0.31)]
        assert without_repeats(all_) == all_

    def test_a_look_back_at_something_else_stays(self) -> None:
        back = [*spoken("abcdefg"), Piece("x", 0.3, 0.4, 0.35), Piece("d", 0.9, 1.0, 0.95)]
        assert without_repeats(back) == back

    def test_spaces_stay_so_that_words_stay_apart(self) -> None:
        back = [*spoken("ab cd"), Piece(" ", 0.2, 0.3, 0.25), *spoken("e", 0.5)]
        assert said(without_repeats(back)) == "ab cd e"

    def test_windows_are_joined_without_them(self) -> None:
        lost = [*spoken("abcdefghij"), *spoken("cdefghij", 0.2), *spoken("cdef", 0.2)]
        assert said(join([((0, 1.0), lost), ((0.5, 1.5), spoken("fghijklmno", 0.5))])) == "abcdefghijklmno"


class TestWords:
    def test_a_word_lasts_from_its_first_look_to_its_last(self) -> None:
        pieces = [Piece("th", 0.1, 0.3, 0.2), Piece("e", 0.3, 0.5, 0.4), Piece(" sun", 0.6, 1.25, 0.9)]
        assert words_of(pieces) == [Stretch("the", 0.1, 0.5), Stretch("sun", 0.6, 1.25)]

    def test_looks_that_overlap_are_parted_between_their_middles(self) -> None:
        pieces = [Piece("a", 0.0, 0.7, 0.3), Piece(" ", 0.4, 0.6, 0.5), Piece("b", 0.5, 1.0, 0.8)]
        assert words_of(pieces) == [Stretch("a", 0.0, pytest.approx(0.55)), Stretch("b", pytest.approx(0.55), 1.0)]

    def test_a_look_back_does_not_turn_time_round(self) -> None:
        pieces = [Piece("a", 1.0, 1.2, 1.1), Piece(" b", 0.2, 0.3, 0.25), Piece(" c", 1.5, 1.6, 1.55)]
        found = words_of(pieces)
        assert [word.text for word in found] == ["a", "b", "c"]
        assert all(word.start <= word.end for word in found)

    def test_several_words_in_a_piece_share_its_time(self) -> None:
        assert [word.text for word in words_of([Piece("of the", 0.0, 0.4, 0.2)])] == ["of", "the"]
        assert words_of([]) == words_of([Piece(" ", 0, 1, 0.5)]) == []

    def test_without_any_spaces_every_piece_is_a_word_unless_all_of_it_is_one(self) -> None:
        assert [word.text for word in words_of(spoken("hello"))] == ["hello"]
        found = words_of(spoken("深い森の中" * 9))
        assert len(found) == 45 and found[7] == Stretch("森", pytest.approx(0.7), pytest.approx(0.8))


class TestSegments:
    def words(self, text: str, start: float = 0.0, each: float = 0.3) -> list[Stretch]:
        return [
            Stretch(word, start + number * each, start + (number + 1) * each)
            for number, word in enumerate(text.split())
        ]

    def test_a_pause_parts_them(self) -> None:
        words = [*self.words("one two three"), *self.words("four five", 1.7)]
        assert segments_of(words) == [Stretch("one two three", 0.0, pytest.approx(0.9)), Stretch("four five", 1.7, 2.3)]

    def test_six_seconds_and_two_lines_are_the_most(self) -> None:
        slow = segments_of(self.words(" ".join("abcdefghi"), each=1.0))
        assert [segment.text for segment in slow] == ["a b c d e f", "g h i"]
        wide = segments_of(self.words("extraordinarily " * 7, each=0.1))
        assert all(len(lines_of(segment.text.split())) <= 2 for segment in wide) and len(wide) == 2
        assert " ".join(segment.text for segment in wide).split() == ["extraordinarily"] * 7

    def test_a_sentence_that_filled_a_line_ends_its_segment(self) -> None:
        words = self.words("this sentence is longer than one line of subtitles. And so on", each=0.1)
        assert [segment.text for segment in segments_of(words)][1] == "And so on"
        assert len(segments_of(self.words("Yes. No. Perhaps.", each=0.1))) == 1

    def test_a_long_word_has_a_line_of_its_own(self) -> None:
        assert lines_of(["a", "b" * 60, "c"]) == ["a", "b" * 60, "c"]
