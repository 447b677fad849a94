"""What several tests of attention stand on."""

from collections.abc import Iterator

import pytest

from saccade.kernels import choose


@pytest.fixture
def kernels_serve_small_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels that pay from some size on serve the tests' few numbers too."""
    for name in ("BLOCKED_PAYS_FROM", "BLOCKED_PAYS_FROM_WITH_GRADIENT", "PRODUCT_PAYS_FROM", "ATTENTION_PAYS_FROM"):
        monkeypatch.setattr(choose, name, 0)
    choose.remembered.cache_clear()
    yield
    choose.remembered.cache_clear()
