"""All of these tests run without gradients, from one seed.

Each runs twice at least, and has to leave behind what it found: references.py.
MICA_REFERENCES=all watches every object that is older than the tests, and
MICA_REFERENCES=none runs each test once.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from e2e.capture.references import objects_to_watch, run_and_compare

from mica import _mica

pytest.register_assert_rewrite(
    "e2e.capture.agreement_of_calls",
    "e2e.capture.calls_in_pieces",
    "e2e.capture.sequences_of_calls",
)
from e2e.capture.calls_in_pieces import LOG  # noqa: E402

MODE = os.environ.get("MICA_REFERENCES", "")
OLD = objects_to_watch(every=MODE == "all")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "once(why): runs once; no references are counted"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test until it is known what each run leaves behind."""
    __tracebackhide__ = True
    if MODE == "none" or pyfuncitem.get_closest_marker("once"):
        return None  # As pytest does.
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    monkeypatch: Any = arguments.get("monkeypatch")

    def run() -> None:
        __tracebackhide__ = True
        torch.manual_seed(0)
        LOG.clear()
        pyfuncitem.obj(**arguments)
        if monkeypatch is not None:
            monkeypatch.undo()
        for handler in logging.getLogger().handlers:
            if hasattr(handler, "records"):  # Pytest's, which keeps them.
                handler.reset()

    watched = [
        value
        for name, module in sys.modules.items()
        if "e2e.capture" in name
        for value in vars(module).values()
    ]
    assert run_and_compare(run, [*OLD, *watched]) == []
    return True


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
