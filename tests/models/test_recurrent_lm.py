"""The recurrent language model: its sizes, its tied output, its dropout."""

from __future__ import annotations

import pytest
import torch

from saccade.models.recurrent_lm import Config, RecurrentLM

V = 13
TOKENS = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 10, 11]])


def parameters(config: Config) -> int:
    return sum(parameter.numel() for parameter in RecurrentLM(config, V).parameters())


def test_parameters_are_as_counted_by_hand() -> None:
    lstm = 4 * 7 * (5 + 7) + 2 * 4 * 7  # input and recurrent matrices, two biases
    assert parameters(Config(hidden=7, embedding=5)) == V * 5 + lstm + V * 7 + V
    assert parameters(Config(hidden=7, embedding=5, output="tied")) == V * 5 + lstm + 7 * 5 + V
    assert parameters(Config(hidden=7, embedding=7, output="tied")) == V * 7 + 4 * 7 * 14 + 8 * 7 + V


def test_the_tied_output_is_the_embedding_also_after_a_step() -> None:
    network = RecurrentLM(Config(hidden=7, embedding=5, output="tied"), V)
    network(TOKENS).sum().backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    assert network.output.weight is network.embedding.weight
    again = RecurrentLM(network.config, V)
    again.load_state_dict(network.state_dict())
    torch.testing.assert_close(again(TOKENS), network(TOKENS))


def test_dropout_acts_in_training_alone() -> None:
    torch.manual_seed(1)
    plain, dropping = (RecurrentLM(Config(7, 5, 2, dropout=share), V) for share in (0.0, 0.4))
    dropping.load_state_dict(plain.state_dict())
    assert not torch.allclose(dropping(TOKENS), dropping(TOKENS))
    torch.testing.assert_close(dropping.eval()(TOKENS), plain(TOKENS), rtol=0, atol=0)


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"dropout": 1.0}, {"layers": 0}])
def test_bad_sizes_name_the_field(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Config(**bad)  # type: ignore[arg-type]
