"""The checks of models find what they are for."""

from __future__ import annotations

import pytest
import torch
from e2e import model_checks
from torch import nn


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_results_that_are_not_finite_have_no_error(value: float) -> None:
    exact = torch.ones(3, dtype=torch.float64)
    wrong = torch.tensor([1.0, value, 1.0])
    assert model_checks.error(torch.ones(3), exact) == 0
    with pytest.raises(AssertionError, match="a result isn't finite"):
        model_checks.error(wrong, exact)
    with pytest.raises(AssertionError, match="float64 eager"):
        model_checks.error(wrong, wrong.double())
    # Behind one that is right, too.
    with pytest.raises(AssertionError, match="a result isn't finite"):
        model_checks.error([torch.ones(3), wrong], [exact, exact])


def test_a_model_that_gives_nan_fails() -> None:
    class Root(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sqrt()

    case = ((-torch.ones(4),), {})
    with pytest.raises(AssertionError, match="isn't finite"):
        model_checks.check(Root(), [case], frozen=False)
