"""A pair is parted into sentence and aspect; the last state is the last word's; a single text is refused by the task."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from saccade.data.labels.records import Labelled, LabelledData
from saccade.errors import InputError
from saccade.models.atae_lstm import AtaeLstm, Config
from saccade.tasks.classify import Classify
from saccade.testing import ContractBroken, check_classifier
from saccade.trace import Lens

M, N, C, V = 4, 3, 3, 20


@pytest.mark.parametrize(("variant", "scorer"), [*product(("atae", "ae"), ("printed", "summed"))])
def test_variants_with_the_aspect_at_the_input_keep_every_promise(variant: str, scorer: str) -> None:
    check_classifier(AtaeLstm, Config(variant, scorer, M, N))


@pytest.mark.parametrize("variant", ["at", "lstm"])
def test_the_others_keep_all_promises_but_that_an_aspect_changes_what_is_said_of_one_word(variant: str) -> None:
    with pytest.raises(ContractBroken, match="breaks 1 of 9 promises:\n  - the result depends on the words"):
        check_classifier(AtaeLstm, Config(variant, "summed", M, N))


def test_a_row_is_parted_into_sentence_and_aspect_whatever_stands_in_the_padding() -> None:
    model = AtaeLstm(Config(embedding=M, hidden=N), V, C)
    tokens = torch.tensor([[4, 5, 6, 2, 7, 8, 9], [4, 2, 5, 0, 0, 0, 0], [4, 5, 6, 0, 0, 0, 0]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]])
    _, aspect, lengths = model.parted(tokens, torch.tensor([7, 3, 3]), segments)
    assert lengths.tolist() == [3, 1, 3]
    table = model.embedding.weight
    torch.testing.assert_close(aspect, torch.stack([table[[7, 8, 9]].mean(0), table[5], torch.zeros(M)]))


@torch.no_grad()
def test_no_weight_falls_on_the_mark_the_aspect_or_the_padding() -> None:
    model, lens = AtaeLstm(Config("atae", "summed", M, N), V, C).eval(), Lens()
    tokens = torch.tensor([[4, 5, 6, 2, 7, 8], [4, 5, 2, 7, 0, 0]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0]])
    model(tokens, torch.tensor([6, 4]), segments, lens=lens)
    first, second = (trace.map("pool").weights[0] for trace in lens.traces)
    assert first[3:].tolist() == [0, 0, 0] and second[2:].tolist() == [0, 0, 0, 0]
    torch.testing.assert_close(first.sum() + second.sum(), torch.tensor(2.0))


@torch.no_grad()
def test_the_order_of_an_aspects_words_does_not_matter_and_that_of_the_sentence_does() -> None:
    model = AtaeLstm(Config(embedding=M, hidden=N), V, C).double().eval()
    segments, lengths = torch.tensor([[0, 0, 0, 0, 1, 1]]), torch.tensor([6])
    found = model(torch.tensor([[4, 5, 6, 2, 7, 8]]), lengths, segments)
    torch.testing.assert_close(model(torch.tensor([[4, 5, 6, 2, 8, 7]]), lengths, segments), found)
    assert not torch.allclose(model(torch.tensor([[5, 4, 6, 2, 7, 8]]), lengths, segments), found)


def test_dropout_acts_in_training_alone() -> None:
    model = AtaeLstm(Config(embedding=M, hidden=N, dropout=0.5), V, C)
    batch = torch.tensor([[4, 5, 6, 2, 7]]), torch.tensor([5]), torch.tensor([[0, 0, 0, 0, 1]])
    assert not torch.equal(model.train()(*batch), model(*batch))
    assert torch.equal(model.eval()(*batch), model(*batch))


def test_single_texts_are_refused_before_training_with_what_to_do() -> None:
    data = LabelledData(train="x.tsv")
    task = Classify.learn(data, [Labelled("good soup", "pos"), Labelled("bad soup", "neg")])
    with pytest.raises(InputError) as told:
        task.network(AtaeLstm, Config(embedding=M, hidden=N))
    message = str(told.value)
    assert message.startswith("recipe: data.columns.second: expected a column with the aspect of each text")
    assert "found single texts (data.format: aspects has one; model.whole: true" in message
    assert isinstance(task.network(AtaeLstm, Config(embedding=M, hidden=N, whole=True)), AtaeLstm)
    assert isinstance(task.network(AtaeLstm, Config("lstm", embedding=M, hidden=N)), AtaeLstm)


def test_bad_settings_name_the_field() -> None:
    for bad in ({"embedding": 0}, {"hidden": 0}, {"dropout": 1.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Config(**bad)
