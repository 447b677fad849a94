"""What the commands share."""

from types import SimpleNamespace

from saccade.cli.options import TOLD, print_notes


def test_a_note_names_its_input_and_of_a_long_one_the_beginning(capsys):
    said = SimpleNamespace(notes=("cut to 7 words", "one is unknown"))
    print_notes("a short text", said)
    print_notes("word " * 100, said)
    first, second, third, fourth = capsys.readouterr().err.splitlines()
    assert first == "note: 'a short text': cut to 7 words" and second == "note: 'a short text': one is unknown"
    beginning = third.removeprefix("note: '").removesuffix("': cut to 7 words")
    assert beginning.startswith("word word") and beginning.endswith("word…") and len(beginning) <= TOLD
    assert fourth.endswith("…': one is unknown")
