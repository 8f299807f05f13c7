"""A run that fails where eager code doesn't is told, once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica


@pytest.mark.once("another compiler's graph stays")
def test_a_run_that_fails_where_eager_does_not_is_told_once():
    fails = False

    def compiler(module: Any, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if fails:
                raise RuntimeError("no such luck")
            return module(*args)

        return run

    fn = mica.compile(lambda x: (x + 1) * 2, backend=compiler)
    for _ in range(4):
        assert fn(torch.ones(1)).item() == 4
    hits = mica.explain(fn).hits
    assert hits > 0
    fails = True
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", mica.MicaWarning)
        for i in range(3):
            assert fn(torch.full((1,), float(i))).item() == 2 * (i + 1)
    notices = [w for w in told if issubclass(w.category, mica.MicaWarning)]
    assert len(notices) == 1
    assert "no such luck" in str(notices[0].message)
    explanation = mica.explain(fn)
    assert explanation.hits == hits
    assert "no such luck" in explanation.details("misses")
