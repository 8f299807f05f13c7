"""All of these tests run without gradients, from one seed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
import torch

from mica import _mica

pytest.register_assert_rewrite(
    "e2e.capture.agreement_of_calls",
    "e2e.capture.calls_in_pieces",
    "e2e.capture.sequences_of_calls",
)


@pytest.fixture(autouse=True)
def _no_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def _count_alive() -> int:
    """Returns how many tensors and compiled callables there are."""
    gc.collect()
    kinds = (torch.Tensor, _mica.Compiled)
    return sum(issubclass(type(item), kinds) for item in gc.get_objects())


@pytest.fixture(scope="module")
def _alive() -> list[int]:
    gc.collect()
    gc.freeze()  # What is there already needn't be looked at each time.
    return [_count_alive()]


@pytest.fixture(autouse=True)
def _nothing_stays_alive(_alive: list[int]) -> Iterator[None]:
    """A test's records, and what its programs read and made, are gone."""
    modules = len(sys.modules)
    yield
    before, _alive[0] = _alive[0], _count_alive()
    # Parts of torch make tensors of their own when they are imported.
    if len(sys.modules) == modules:
        assert _alive[0] <= before
