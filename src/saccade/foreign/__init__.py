"""Models that were not written here, under the lens: :func:`look`."""

from saccade.foreign.look import look

__all__ = ["look"]
