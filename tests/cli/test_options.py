"""What the commands share."""

from pathlib import Path
from types import SimpleNamespace

from saccade.cli.options import LONGEST_INPUT, print_notes


def test_a_note_names_its_input_and_of_a_long_one_the_beginning(capsys):
    said = SimpleNamespace(notes=("cut to 7 words", "one is unknown"))
    print_notes("a short text", said)
    print_notes("word " * 100, said)
    first, second, third, fourth = capsys.readouterr().err.splitlines()
    assert first == "note: 'a short text': cut to 7 words" and second == "note: 'a short text': one is unknown"
    beginning = third.removeprefix("note: '").removesuffix("': cut to 7 words")
    assert beginning.startswith("word word") and beginning.endswith("word…") and len(beginning) <= LONGEST_INPUT
    assert fourth.endswith("…': one is unknown")


def test_the_reference_lists_every_format_that_data_may_be_said_to_have() -> None:
    from saccade.data.files.fields import FORMATS as FIELDS
    from saccade.data.files.semeval import BLOCKS
    from saccade.data.pairs.records import FORMATS as PAIRS
    from saccade.data.survey import surveys

    page = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
    [row] = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `--format F`")]
    own = [name for kind in surveys() for name in kind.formats]
    missing = {name for name in (*PAIRS, *FIELDS, *BLOCKS, *own) if f"`{name}`" not in row}
    assert not missing
