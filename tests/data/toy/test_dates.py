"""The built-in task: dates as people write them → ISO 8601."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import subprocess
import sys
import time

import pytest
from babel.dates import format_date

from saccade.data.toy.dates import (
    CASES,
    EXAMPLES,
    LANGUAGES,
    ODDS,
    SHORT_YEARS,
    Dates,
    Manner,
    Pairs,
    fold,
    generate,
    parse_pattern,
    read_language,
    split_days,
    twofold_months,
    write,
)
from saccade.errors import InputError

DAY = datetime.date(2009, 5, 5)


@pytest.fixture(scope="module")
def splits() -> dict[str, Pairs]:
    return generate(Dates(train=30000))


def sources(day: datetime.date, name: str, **manner: object) -> set[str]:
    """What the generator can write of a day in one language, in one manner."""
    language = read_language(name)
    twofold = twofold_months([read_language(other) for other in LANGUAGES])
    forms = language.forms if day.year in SHORT_YEARS else language.long_year_forms
    return {write(day, form, language, Manner(**manner), twofold) for form in forms}  # type: ignore[arg-type]


def numbers(text: str) -> list[int]:
    """The numbers in a text, in whatever digits."""
    return [int(run) for run in re.findall(r"\d+", text)]


def test_a_source_never_has_two_targets(splits: dict[str, Pairs]) -> None:
    targets: dict[str, str] = {}
    for source, target in (pair for pairs in splits.values() for pair in pairs):
        assert targets.setdefault(source, target) == target, source


def test_no_source_of_any_language_has_two_targets_within_one_year() -> None:
    languages = [read_language(name) for name in LANGUAGES]
    twofold = twofold_months(languages)
    days = [datetime.date(2011, 1, 1) + datetime.timedelta(days=n) for n in range(0, 365, 2)]
    manners = (Manner(), Manner(case="UPPER", periods=False, standalone=True), Manner(separator="/", padding=True))
    meant: dict[str, datetime.date] = {}
    for language in languages:
        for source, day in (
            (write(day, form, language, manner, twofold), day)
            for form in language.forms
            for manner in manners
            for day in days
        ):
            assert meant.setdefault(source, day) == day, source


def test_sizes_are_as_asked_and_sources_unique_within_a_split(splits: dict[str, Pairs]) -> None:
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 30000, "valid": 1000, "test": 2000}
    assert all(len({source for source, _ in pairs}) == len(pairs) for pairs in splits.values())


def test_targets_are_iso_dates_in_range(splits: dict[str, Pairs]) -> None:
    for _, target in splits["train"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", target)
        assert 1940 <= datetime.date.fromisoformat(target).year <= 2060


def test_no_date_of_valid_or_test_is_trained_on(splits: dict[str, Pairs]) -> None:
    train, valid, test = ({target for _, target in splits[split]} for split in ("train", "valid", "test"))
    assert not (train & valid or train & test or valid & test)


def test_every_date_belongs_to_one_split_by_a_draw_of_the_seed() -> None:
    first, again, other = split_days(3), split_days(3), split_days(5)
    days = [day for split in first.values() for day in split]
    assert len(days) == len(set(days)) == (datetime.date(2061, 1, 1) - datetime.date(1940, 1, 1)).days
    assert first == again
    assert set(first["test"]) != set(other["test"])


def test_the_held_out_pairs_do_not_change_with_the_size_of_train() -> None:
    small, large = (generate(Dates(train=7, valid=5, test=3)), generate(Dates(train=70, valid=5, test=3)))
    assert small["valid"] == large["valid"] and small["test"] == large["test"]
    assert small["train"] == large["train"][:7]


def test_another_seed_makes_other_pairs() -> None:
    assert generate(Dates(train=30, valid=5, test=3)) != generate(Dates(train=30, valid=5, test=3, seed=2))


@pytest.mark.parametrize("before", ["pass", "import babel.dates as b; b.get_month_names('wide', 'stand-alone', 'he')"])
def test_the_same_seed_makes_the_same_pairs_in_every_process_and_after_any_use_of_babel(before: str) -> None:
    digest = "hashlib.sha256(repr(generate(Dates(train=2000, valid=5, test=3))).encode()).hexdigest()"
    code = f"{before}\nimport hashlib\nfrom saccade.data.toy.dates import Dates, generate\nprint({digest})"
    here = hashlib.sha256(repr(generate(Dates(train=2000, valid=5, test=3))).encode()).hexdigest()
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.strip() == here


def test_a_language_without_standalone_names_uses_its_own_names_for_them() -> None:
    read_language("he")
    for name in ("he", "ja", "id"):
        assert read_language(name).names["LLLL"] == read_language(name).names["MMMM"]
    assert read_language("pl").names["LLLL"][4] == "maj"


def test_importing_does_not_load_torch() -> None:
    code = "import sys, saccade.data.toy.dates; sys.exit('torch' in sys.modules or 'babel' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_writes_gregorian_years_as_babel_does(name: str) -> None:
    written = sources(DAY, name)
    for length in ("full", "long", "medium", "short"):
        plain = re.sub("[\u200e\u200f]", "", format_date(DAY, length, locale=name))
        plain = re.sub("[\u00a0\u202f]", " ", plain)
        assert plain in written or f"{name.replace('_', '-')} {plain}" in written
    assert all({9, 2009} & set(numbers(source)) for source in written)


@pytest.mark.parametrize(
    ("name", "source"),
    [("pt", "terça-feira, 5 de maio de 2009"), ("de", "5. Mai 2009"), ("en_US", "en-US 5/5/09"), ("ja", "2009/05/05")],
)
def test_well_known_forms_are_made(name: str, source: str) -> None:
    assert source in sources(DAY, name)


def test_the_examples_are_sources_the_generator_can_make() -> None:
    days = ((1998, 3, 27), (1969, 7, 21), (1973, 10, 6), (2024, 2, 29), (2000, 1, 1), (2009, 3, 4))
    for example, day, name in zip(EXAMPLES, days, ("pt", "ru", "ar", "ja", "hi", "en_US"), strict=True):
        manners: tuple[dict[str, bool], ...] = ({}, {"own_digits": True}, {"padding": True})
        assert example in set().union(*(sources(datetime.date(*day), name, **manner) for manner in manners))


def test_numeric_forms_carry_their_locale_unless_a_four_digit_year_leads(splits: dict[str, Pairs]) -> None:
    for name in LANGUAGES:
        language = read_language(name)
        for form in filter(lambda form: form.numeric, language.forms):
            source = write(DAY, form, language, Manner())
            assert source.startswith(f"{language.tag} ") != (numbers(source)[0] == 2009), source
    bare = [source for source, _ in splits["train"] if re.fullmatch(r"[\d\s./-]+", source)]
    assert len(bare) > 1000
    assert all(re.match(r"\d{4}\D", source) for source in bare)


def test_a_month_name_of_two_meanings_carries_its_locale_only_beside_the_other_language() -> None:
    november = datetime.date(2009, 11, 5)
    assert "pl 5 listopada 2009" in sources(november, "pl")
    assert "5 listopada 2009" not in sources(november, "pl")
    assert "pl 5 LISTOPADA 2009" in sources(november, "pl", case="UPPER")
    assert "5 grudnia 2009" in sources(datetime.date(2009, 12, 5), "pl")
    alone = twofold_months([read_language(name) for name in ("pl", "de", "pt")])
    assert alone == frozenset()
    assert twofold_months([read_language("pl"), read_language("hr")]) >= {"listopada", "lip"}


def test_a_language_that_writes_both_orders_keeps_one() -> None:
    # CLDR's Maltese: yMd is M/d/y, and its short form dd/MM/y.
    for name in ("mt", "es_PR"):
        assert len({form.order for form in read_language(name).forms if form.marked}) == 1


def test_folding_outlives_every_case() -> None:
    for name in LANGUAGES:
        language = read_language(name)
        for form in filter(lambda form: not form.numeric, language.forms):
            for month in range(1, 13):
                day = DAY.replace(month=month)
                assert len({fold(write(day, form, language, Manner(case=case))) for case in CASES}) == 1


def test_two_digit_years_stay_within_the_pivot() -> None:
    assert "en-US 5/5/69" in sources(datetime.date(1969, 5, 5), "en_US")
    assert "en-US 5/5/60" in sources(datetime.date(2060, 5, 5), "en_US")
    for outside in (datetime.date(1968, 5, 5), datetime.date(1940, 5, 5)):
        assert all(outside.year in numbers(source) for source in sources(outside, "en_US"))
    shortened = [
        (source, target)
        for source, target in generate(Dates(train=3000, valid=0, test=0, languages=("es", "ko")))["train"]
        if int(target[:4]) not in numbers(source)
    ]
    assert len(shortened) > 100
    assert all(1969 <= int(target[:4]) <= 2068 for _, target in shortened)


def test_each_disorder_does_what_it_says() -> None:
    assert "Terça-feira, 5 de Maio de 2009" in sources(DAY, "pt", case="Title")
    assert "dienstag, 5. mai 2009" in sources(DAY, "de", case="lower")
    assert "ΤΡΙΤΗ 5 ΜΑΪΟΥ 2009" in sources(DAY, "el", case="UPPER")
    assert "5 HAZİRAN 2009 CUMA" in sources(DAY.replace(month=6), "tr", case="UPPER")
    assert "5 maj 2009" in sources(DAY, "pl", standalone=True)
    assert "5 de maig del 2009" in sources(DAY, "ca", standalone=True)
    assert "৫ মে, ২০০৯" in sources(DAY, "bn", own_digits=True)
    assert "5 mai 2009" in sources(DAY, "fr", own_digits=True)
    assert "05 de maio de 2009" in sources(DAY, "pt", padding=True)
    assert "2009/5/5" in sources(DAY, "ko", separator="/")
    assert "5 мая 2009" in sources(DAY, "ru", tail=False)
    assert "2009年5月5日" in sources(DAY, "ja", tail=False)
    assert "May 5 2009" in sources(DAY, "en_US", commas=" ")
    assert "May 5,2009" in sources(DAY, "en_US", commas=",")
    assert {"5 Mai 2009", "de 05.05.2009"} <= sources(DAY, "de", periods=False)
    assert "5 mai  2009" in sources(DAY, "fr", doubled=1)


def test_disorders_happen_about_as_often_as_stated(splits: dict[str, Pairs]) -> None:
    bengali = [s for s, _ in generate(Dates(train=2000, valid=0, test=0, languages=("bn",)))["train"]]
    own = sum(any("০" <= c <= "৯" for c in source) for source in bengali) / len(bengali)
    assert own == pytest.approx(ODDS["own digits"], abs=0.06)
    train = [source for source, _ in splits["train"]]
    assert sum("  " in source for source in train) / len(train) == pytest.approx(ODDS["double space"], abs=0.02)
    assert 0.015 < sum(source == target for source, target in splits["train"]) / len(train) < 0.05


def test_sources_are_short_enough_for_a_small_model(splits: dict[str, Pairs]) -> None:
    lengths = sorted(len(source) for source, _ in splits["train"])
    assert lengths[len(lengths) * 99 // 100] <= 40 and lengths[-1] <= 48


def test_languages_are_drawn_equally() -> None:
    # A third of the forms of each of the three is numeric, and so shows its locale.
    train = generate(Dates(train=6000, valid=0, test=0, languages=("fr", "ro", "en_GB")))["train"]
    tags = [source.partition(" ")[0] for source, _ in train]
    assert [tags.count(tag) / len(tags) for tag in ("fr", "ro", "en-GB")] == pytest.approx([0.96 / 9] * 3, abs=0.02)


def test_sixty_thousand_pairs_take_seconds() -> None:
    start = time.process_time()
    generate(Dates(train=6000, valid=3, test=5))
    assert time.process_time() - start < 1


def test_a_pattern_is_a_form_when_it_has_a_year_a_month_a_day_and_no_era() -> None:
    assert parse_pattern("d MMMM G y") is None
    assert parse_pattern("d MMMM") is None
    form = parse_pattern("EEE, y\u202f'm'. MMMM d 'd'.")
    assert form is not None
    assert form.fields == ("E", "y", "MMMM", "d") and form.order == "yMd"
    assert [piece.text for piece in form.pieces if piece.text] == [", ", " m. ", " ", " d."]


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (Dates(languages=("pt", "xx")), "data.languages: expected CLDR locale ids, found 'xx'"),
        (Dates(languages=("th",)), "data.languages: expected languages of the Gregorian calendar, found 'th'"),
        (Dates(languages=("fa",)), "data.languages: expected languages of the Gregorian calendar, found 'fa'"),
        (Dates(languages=()), "data.languages: expected one or more different CLDR locale ids, found []"),
        (Dates(languages=("pt", "pt")), "data.languages: expected one or more different CLDR locale ids, found"),
        (Dates(test=9**9, train=3), "data.test: expected 0 to 77350 pairs, found 387420489"),
        (Dates(train=-1), "data.train: expected 0 to"),
    ],
)
def test_an_impossible_recipe_is_refused_by_name(dates: Dates, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        generate(dates)


def test_as_many_pairs_as_the_limit_allows_can_be_made() -> None:
    days = len(split_days(1)["valid"])
    assert len(generate(Dates(train=0, valid=days, test=0, languages=("sv",)))["valid"]) == days
