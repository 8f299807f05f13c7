"""All of these tests run without gradients, from one seed."""

from __future__ import annotations

import pytest
import torch

pytest.register_assert_rewrite("e2e.capture.agreement_of_calls")


@pytest.fixture(autouse=True)
def _no_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield
