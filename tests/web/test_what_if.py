"""What if it had looked elsewhere: a hand in the browser, and the same edit through ``bundle.predict``."""

from __future__ import annotations

import re

import pytest

import saccade
from saccade.recipes.recipe import read_recipe
from saccade.trace.edits import Even, Mask, edit_from_json
from saccade.trace.lens import Lens
from tests.web import made_model
from tests.web.explorer import number
from tests.web.made_model import INPUT, seen, serving

SITE = "decoder.attention"


@pytest.fixture(scope="package")
def address(bundle):
    with serving(bundle) as address:
        yield address


@pytest.fixture
def page(visit, address):
    """The server's page, and what it asks."""
    page = visit(f"{address}#view=steps")
    page.asked = []
    page.page.on(
        "request", lambda request: page.asked.append(request.post_data_json) if request.method == "POST" else None
    )
    return page


def answered(page) -> str:
    """The output after the model has answered."""
    page.page.get_by_role("region", name="what you changed").wait_for()
    page.page.get_by_text("asking the model").wait_for(state="detached")
    page.settled()
    return page.page.locator(".outcome .now .written").inner_text()


def sliders(page):
    return page.stage.get_by_role("slider")


def weights_of(page) -> list[float]:
    return [
        float(value)
        for value in sliders(page).evaluate_all("all => all.map(each => each.getAttribute('aria-valuenow'))")
    ]


def drag(page, position: int, share: float) -> None:
    box = sliders(page).nth(position).bounding_box()
    middle = box["y"] + box["height"] / 2
    page.page.mouse.move(box["x"] + 3, middle)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * share / 2, middle, steps=3)
    page.page.mouse.move(box["x"] + box["width"] * share, middle, steps=3)
    page.page.mouse.up()


def test_the_page_opens_with_what_the_bundle_predicts(page, bundle):
    output, trace = seen(bundle)
    assert page.page.get_by_role("textbox", name="input").input_value() == INPUT
    assert page.page.get_by_role("group", name="output, one button a step").inner_text().split()[:-1] == output.split()
    assert weights_of(page) == pytest.approx(trace.maps[0].weights[0].tolist(), abs=1e-4)


def test_dragging_weight_gives_what_the_bundle_predicts_under_the_same_edit(page, bundle):
    page.press("ArrowRight")  # the step that writes the animal
    drag(page, 4, 0.97)
    output = answered(page)
    (asked,) = page.asked
    (edit,) = asked["edits"]
    assert (edit["edit"], edit["site"], edit["step"]) == ("set", SITE, 1)
    assert edit["row"][4] == pytest.approx(0.97, abs=0.02)
    assert sum(edit["row"]) == pytest.approx(1, abs=1e-4), "the others made room"
    expected, trace = seen(bundle, edit_from_json(edit))
    assert output == expected
    assert output != seen(bundle)[0], "an edit that changes nothing would prove nothing"
    assert weights_of(page) == pytest.approx(trace.maps[0].weights[1].tolist(), abs=1e-4)


def test_an_edit_that_matters_underlines_what_became_different(page, bundle):
    before, _ = seen(bundle)
    hidden = {position: seen(bundle, Mask((position,), site=SITE))[0] for position in range(5)}
    position = next(position for position, output in hidden.items() if output != before)
    page.go(view="steps", key=position)
    page.page.get_by_label("at every step").check()
    page.page.get_by_role("group", name="what if").get_by_role("button", name="hide").click()
    assert answered(page) == hidden[position]
    (edit,) = page.asked[-1]["edits"]
    assert (edit["edit"], edit["step"], edit["keys"]) == ("mask", None, [position])
    different = page.page.get_by_role("region", name="what you changed").locator("u").all_inner_texts()
    assert set("".join(different).split()) == set(before.split()) ^ set(hidden[position].split())


def test_a_focused_weight_moves_by_keys_enter_asks_and_one_click_takes_it_back(page, bundle):
    _, trace = seen(bundle)
    page.go(view="steps", key=0)
    sliders(page).nth(0).focus()
    for _ in range(10):
        page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Enter")
    output = answered(page)
    (edit,) = page.asked[-1]["edits"]
    assert edit["row"][0] == pytest.approx(float(trace.maps[0].weights[0, 0]) + 0.5, abs=0.03)
    assert output == seen(bundle, edit_from_json(edit))[0]
    page.page.get_by_role("list", name="your changes").get_by_role("button", name="take back").first.click()
    page.page.get_by_role("region", name="what you changed").wait_for(state="detached")
    assert weights_of(page.settled()) == pytest.approx(trace.maps[0].weights[0].tolist(), abs=1e-4)


def test_a_row_can_be_made_even(page, bundle):
    page.page.get_by_role("button", name="make all equal").click()
    output = answered(page)
    (edit,) = page.asked[-1]["edits"]
    assert edit == {"edit": "even", "site": SITE, "head": 0, "step": 0}
    assert weights_of(page) == pytest.approx([0.2] * 5, abs=1e-4)
    expected, trace = seen(bundle, Even(site=SITE, step=0))
    assert output == expected
    page.press("ArrowRight")
    assert weights_of(page) == pytest.approx(trace.maps[0].weights[1].tolist(), abs=1e-4)
    assert max(weights_of(page)) > 0.21, "the other steps look as they did"


def test_every_row_can_be_made_even_at_once(page, bundle):
    page.page.get_by_label("at every step").check()
    page.page.get_by_role("button", name="make all equal").click()
    output = answered(page)
    (edit,) = page.asked[-1]["edits"]
    assert edit["step"] is None
    assert output == seen(bundle, Even(site=SITE))[0]
    assert "all weigh the same at every step" in page.page.get_by_role("list", name="your changes").inner_text()
    for _ in range(2):
        page.press("ArrowRight")
        assert weights_of(page) == pytest.approx([0.2] * 5, abs=1e-4)


def test_the_picture_stays_where_it_is_from_the_first_look_to_the_answer_and_back(page):
    def place() -> dict:
        return page.page.locator(".steps").bounding_box()

    before = place()
    sliders(page).nth(2).focus()
    page.page.keyboard.press("ArrowRight")
    page.button("ask the model").wait_for()
    assert place() == before, "while a weight is held"
    page.button("ask the model").click()
    answered(page)
    assert place() == before, "after the first answer"
    page.page.get_by_role("button", name="make all equal").click()
    page.page.get_by_text("all weigh the same").wait_for()
    answered(page)
    page.page.get_by_label("begin with").fill("the cat")
    page.button("go").click()
    page.page.get_by_text("begins with").wait_for()
    answered(page)
    assert place() == before, "after several"
    page.button("take all back").click()
    page.page.get_by_role("region", name="what you changed").wait_for(state="detached")
    assert place() == before, "when all is taken back"


def test_what_became_of_a_change_is_compared_with_what_stood_before(page, bundle):
    assert "Compare" not in page.tabs
    page.page.get_by_label("at every step").check()
    page.page.get_by_role("button", name="make all equal").click()
    answered(page)
    page.tab("Compare")
    (plain, before), (changed, now) = seen(bundle), seen(bundle, Even(site=SITE))
    outputs = page.page.get_by_role("region", name="both outputs, token by token").inner_text().split()
    assert outputs[:2] == ["before", "now"]
    assert set(plain.split()) | set(changed.split()) <= set(outputs)
    rows = page.table()[1:]
    steps = [i for i, (one, other) in enumerate(zip(plain.split(), changed.split(), strict=False)) if one == other]
    between = now.maps[0].weights - before.maps[0].weights
    assert [number(text) for text in rows[steps[0]][1:]] == pytest.approx(between[steps[0]].tolist(), abs=6e-3)
    page.stage.locator(".differences button").first.click()
    assert re.search(r"0\.\d\d in before, 0\.20 in now", page.settled().said)
    page.tab("Steps").page.get_by_role("button", name="take back").click()
    page.page.get_by_role("region", name="what you changed").wait_for(state="detached")
    assert "Compare" not in page.settled().tabs


def test_a_forced_beginning_is_kept(page, bundle):
    page.page.get_by_label("begin with").fill("the cat")
    page.page.get_by_role("button", name="go", exact=True).click()
    output = answered(page)
    assert page.asked[-1]["prefix"] == "the cat"
    assert output == seen(bundle, prefix="the cat")[0]
    assert output.startswith("the cat")


def test_another_input_is_run(page, bundle):
    page.page.get_by_role("textbox", name="input").fill("der maus ist neu")
    page.page.keyboard.press("Enter")
    page.stage.get_by_role("slider", name="maus").wait_for()
    (expected,) = bundle.predict(["der maus ist neu"])
    tokens = page.settled().page.get_by_role("group", name="output, one button a step")
    assert tokens.inner_text().split()[:-1] == expected.value.split()


def test_what_the_server_refuses_is_told_in_words(page, complaints):
    page.page.get_by_role("textbox", name="input").fill("x" * 200_000)
    page.page.get_by_role("button", name="run", exact=True).click()
    alert = page.page.get_by_role("alert")
    alert.wait_for()
    assert "at most" in alert.inner_text()
    # A browser writes every answer above 399 to its console by itself.
    assert all("422" in told for told in complaints)
    complaints.clear()


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_to_mend_before_and_after_a_change(visit, address, width):
    page = visit(f"{address}#view=steps", width=width)
    assert (page.faults(), page.sideways()) == ([], [])
    page.page.get_by_role("button", name="make all equal").click()
    answered(page)
    assert (page.faults(), page.sideways()) == ([], [])
    assert (page.tab("Compare").faults(), page.sideways()) == ([], [])


def hide_buttons(page) -> list[str]:
    bar = page.page.get_by_role("group", name="what if")
    return bar.get_by_role("button", name=re.compile("^(hide|show) ")).all_inner_texts()


def test_the_arrows_step_again_after_a_drag(page):
    drag(page, 1, 0.6)
    answered(page)
    assert page.press("ArrowRight").count == "step 2 of 5"
    assert page.page.get_by_role("button", name="ask the model").count() == 0, "no weight was moved"
    sliders(page).nth(2).click()
    assert page.press("ArrowRight").count == "step 3 of 5"
    sliders(page).nth(2).focus()
    page.press("ArrowRight")
    page.page.get_by_role("button", name="ask the model").wait_for()
    assert page.count == "step 3 of 5", "who came to the bar by Tab moves it"


def test_what_will_be_hidden_does_not_change_on_the_way_to_the_button_nor_after_it(page):
    most = max(range(5), key=weights_of(page).__getitem__)
    words = INPUT.split()
    assert hide_buttons(page) == [f"hide {words[most]}"]
    other = next(position for position in range(4) if position != most)
    box = sliders(page).nth(other).bounding_box()
    page.page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    page.settled()
    assert words[other] in page.said, "the pointer is over another row"
    assert hide_buttons(page) == [f"hide {words[most]}"]
    page.go(view="steps", key=other)
    assert hide_buttons(page) == [f"hide {words[other]}"]
    page.page.get_by_role("button", name=f"hide {words[other]}").click()
    answered(page)
    assert hide_buttons(page) == [f"show {words[other]}"]
    page.page.get_by_role("button", name=f"show {words[other]}").click()
    page.page.get_by_role("region", name="what you changed").wait_for(state="detached")
    assert hide_buttons(page.settled()) == [f"hide {words[other]}"]


@pytest.fixture(scope="module")
def spelling(tmp_path_factory):
    """A model that reads and writes letters."""
    return made_model.trained(tmp_path_factory.mktemp("letters"), tokens="characters")


def test_a_whole_word_is_hidden_at_once(visit, spelling):
    with serving(spelling) as address:
        page = visit(f"{address}#view=steps&key=5")  # the second letter of "hund"
        assert hide_buttons(page) == ["hide u", "hide hund"]
        page.page.get_by_label("at every step").check()
        page.page.get_by_role("button", name="hide hund").click()
        assert answered(page) == seen(spelling, Mask((4, 5, 6, 7), site=SITE))[0]
        assert "hund is hidden at every step" in page.page.get_by_role("list", name="your changes").inner_text()
        assert weights_of(page)[4:8] == [0, 0, 0, 0]
        assert page.stage.locator(".steps-row.masked").count() == 4
        assert hide_buttons(page) == ["show hund"]
        page.page.reload()
        answered(page)
        assert hide_buttons(page) == ["show hund"]


@pytest.mark.parametrize("width", [721, 768, 790, 840, 920, 921, 960])
def test_the_live_page_fits_windows_between_a_phone_and_a_desk(visit, address, width):
    page = visit(f"{address}#view=steps", width=width)
    assert page.sideways() == []


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    """A model that ranks candidates, hardly trained."""
    changes = {
        "train": {"epochs": 1, "updates": 2, "device": "cpu"},
        "model": {"hidden": 5, "mlp": 4, "compare": "alignment"},
    }
    records = [("who is a nurse ?", ["rosa is one", "no"], [1.0, 0.0]), ("who ?", ["no", "me"], [0.0, 1.0])] * 9
    recipe = read_recipe("siamese_facts", changes=changes)
    folder = tmp_path_factory.mktemp("ranker") / "run"
    saccade.train(recipe, dict.fromkeys(("train", "valid", "test"), records), folder=folder)
    return saccade.load(folder, device="cpu")


ASKED = "who is rosa ?\trosa is a nurse\tno\tone is me or rosa"


def test_what_if_on_a_ranker_asks_about_the_candidate_that_is_shown(visit, ranker):
    (plain,) = ranker.predict([ASKED], lens=Lens())
    site = "alignment"
    with serving(ranker, ASKED) as address:
        page = visit(f"{address}#view=steps&site={site}")
        assert page.page.get_by_role("textbox", name="input").input_value() == ASKED
        asked = []
        page.page.on(
            "request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None
        )
        drag(page, 1, 0.9)
        page.page.get_by_role("region", name="what you changed").wait_for()
        page.page.get_by_text("asking the model").wait_for(state="detached")
        assert page.page.get_by_role("alert").count() == 0
        ((given,), (edit,)) = asked[0]["inputs"], asked[0]["edits"]
        assert given["candidate"] == plain.value and given["candidates"] == ASKED.split("\t")[1:]
        (edited,) = ranker.predict([given], lens=Lens(edits=[edit_from_json(edit)]))
        assert weights_of(page) == pytest.approx(edited.trace.map(site).weights[0].tolist(), abs=1e-4)
        places = sorted(edited.probabilities.values(), reverse=True)
        share = edited.probabilities[plain.value]
        now = page.page.locator(".outcome .now").inner_text()
        assert plain.value in now and "the same" not in now
        assert f"score {share:.3f}, place {places.index(share) + 1} of 3" in now
        page.page.get_by_role("textbox", name="input").fill(ASKED.replace("nurse", "me"))
        page.button("run").click()
        page.page.get_by_role("region", name="what you changed").wait_for(state="detached")
        assert page.page.get_by_role("alert").count() == 0
