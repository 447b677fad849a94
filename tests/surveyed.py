"""Good pairs, a table of them, and its survey, for tests of what a survey says."""

from saccade.data.survey.pairs import Reading, survey

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


def look(path, **options):
    reading = {key: options.pop(key) for key in ("columns", "format", "tidy") if key in options}
    return survey(Reading(path, **reading), **options)
