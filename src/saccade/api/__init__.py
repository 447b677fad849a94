"""Train, load, predict, evaluate: what a program calls, and what the command line calls too."""

from saccade.api.trained import IN_MEMORY, Bundle, load
from saccade.api.training import Verdict, new_folder, resume, train, verdict
from saccade.task import Prediction

__all__ = ["IN_MEMORY", "Bundle", "Prediction", "Verdict", "load", "new_folder", "resume", "train", "verdict"]
