"""Traces models of other libraries: :func:`look`."""

from saccade.foreign.look import look

__all__ = ["look"]
