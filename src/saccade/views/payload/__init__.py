"""What a page holds of a trace: a JSON header and blocks of numbers apart, which the explorer reads when it needs them."""

from saccade.views.payload.page import PageData, page_data

__all__ = ["PageData", "page_data"]
