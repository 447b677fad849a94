"""Good pairs, a table of them, and its survey, for tests of what a survey says."""

from saccade.data.pairs.records import PairData, PairFiles
from saccade.data.survey.pairs import PairSurvey

GOOD = [
    ("The dog is in the house.", "O cachorro está na casa."),
    ("They are not here, are they?", "Eles não estão aqui, estão?"),
    ("What did she say about it?", "O que ela disse sobre isso?"),
    ("I do not know who he is.", "Eu não sei quem ele é."),
    ("We had to go with them.", "Nós tivemos que ir com eles."),
]


def table(tmp_path, rows, name="pairs.tsv"):
    path = tmp_path / name
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def look(path, tests=(), *, has_recipe=False, progress=None, **fields):
    """The survey of a file, or of two, with these fields of ``data``."""
    train = PairFiles(*map(str, path)) if isinstance(path, tuple) else str(path)
    survey = PairSurvey(PairData(train=train, **fields), tests, has_recipe=has_recipe)
    return survey.read() if progress is None else survey.read(progress)
