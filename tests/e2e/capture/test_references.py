"""The check that every test here goes through tells what it should."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from e2e.capture.references import ROUNDS, run_and_compare

pytestmark = [
    pytest.mark.once("it counts by itself"),
    pytest.mark.skipif(
        os.environ.get("MICA_REFERENCES") == "none", reason="nothing is counted"
    ),
]

KEPT: list[Any] = []
THING = object()


def changes(run: Callable[[], None]) -> tuple[list[str], int]:
    """Returns what is told of a program, and how often it ran."""
    runs = [0]

    def counted() -> None:
        runs[0] += 1
        run()

    return run_and_compare(counted, [None, THING]), runs[0]


def test_a_run_that_leaves_nothing_is_run_once_more():
    assert changes(lambda: None) == ([], 2)
    assert changes(lambda: [THING, {}].clear()) == ([], 2)


@pytest.mark.parametrize("item", [None, THING], ids=["None", "object"])
@pytest.mark.parametrize(
    ("name", "by"), [("Py_IncRef", "+1"), ("Py_DecRef", "-1")]
)
def test_a_reference_too_many_or_too_few(name, by, item):
    call = getattr(ctypes.pythonapi, name)
    call.argtypes = [ctypes.py_object]
    for _ in range(ROUNDS + 2):  # There are some to take away.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
    told, runs = changes(lambda: call(item))
    if item is None and sys.version_info >= (3, 12):
        assert (told, runs) == ([], 2)  # It counts none.
        return
    assert runs == ROUNDS + 2
    assert told == [
        f"references of {item!r}: {by} in the last of {ROUNDS} runs"
    ]


def test_objects_and_memory_that_stay():
    told, _ = changes(lambda: KEPT.append([]))
    assert [line.split(":")[0] for line in told] == [
        "blocks of Python's memory",
        "objects that the collector knows",
    ]
    told, _ = changes(lambda: KEPT.append(b"%d" % (1000 + len(KEPT))))
    assert [line.split(":")[0] for line in told] == [
        "blocks of Python's memory"
    ]
    KEPT.clear()


def test_a_cache_that_fills_is_no_leak():
    def fill() -> None:
        if len(KEPT) < 6:
            KEPT.append([THING])

    told, runs = changes(fill)
    assert not told and 5 <= runs <= ROUNDS
    KEPT.clear()


def test_bytes_of_the_heap_that_stay():
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    told = run_and_compare(lambda: malloc(100_000), [], with_heap=True)
    assert [line.split(":")[0] for line in told] == ["bytes of the heap"]
