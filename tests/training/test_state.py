"""A complete checkpoint exists at every moment."""

import torch
from torch import nn

from saccade.task import Phase
from saccade.training.config import Train
from saccade.training.phases import ActivePhase
from saccade.training.state import Progress, checkpoints, load_checkpoint, save_checkpoint
from tests.killing import killed_before_each_file_operation


def test_a_kill_at_any_moment_of_saving_leaves_a_whole_checkpoint(tmp_path):
    """Two saves of the same update, as at the end of a run, then one of a later update."""
    network = nn.Linear(3, 5)
    parameters = list(network.parameters())
    phase = ActivePhase(Phase("train", lambda *given: None), Train(), parameters, [], torch.optim.SGD(parameters))

    def save() -> None:
        for update, epoch in [(7, 1), (7, 2), (9, 3)]:
            save_checkpoint(tmp_path, network, [phase], Progress(update=update, epoch=epoch), {})

    save_checkpoint(tmp_path, network, [phase], Progress(update=7), {})
    for _ in killed_before_each_file_operation(save, str(tmp_path)):
        progress, _ = load_checkpoint(checkpoints(tmp_path)[-1], network, [phase])
        assert progress.update in (7, 9)
    assert (progress.update, progress.epoch) == (9, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["update-000000009"]
