"""What each run of a test leaves behind: references, objects and memory.

A program that gives back each reference that it took, and no other, leaves all
counts as they were. A cache that fills moves them for a while; what moves in
each run, and the same way, is a leak, or a reference that was given back twice.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy

# Runs one after the other that all have to move a count before it is told.
ROUNDS = 8

TOTALS = (
    "blocks of Python's memory",
    "objects that the collector knows",
    "bytes of the heap",
)

# What code shares most. None of it is immortal before CPython 3.12.
SINGLE = (None, True, False, ..., NotImplemented, (), "", b"")
_SMALL = (
    *range(-5, 257),
    *map(chr, range(256)),
    *(b"%c" % i for i in range(256)),
)
_KINDS = (type, types.ModuleType, types.BuiltinFunctionType)


def objects_to_watch(every: bool) -> list[Any]:
    """Returns objects that are there now and stay.

    Args:
      every: All that the collector knows, instead of classes, modules and
        functions in C alone.
    """
    # By their classes' own words: isinstance() asks some objects, which warn.
    known = [
        item
        for item in gc.get_objects()
        if issubclass(type(item), object if every else _KINDS)
        and type(item) is not types.FrameType
    ]
    return [*SINGLE, *_SMALL, *known]


class _HeapUse(ctypes.Structure):
    """The mallinfo2 of malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks "
        "uordblks fordblks keepcost".split()
    ]


_heap_use = ctypes.CDLL(None).mallinfo2
_heap_use.restype = _HeapUse


def _count(
    watched: Sequence[Any], counts: numpy.ndarray, with_heap: bool
) -> None:
    gc.collect()
    sys._clear_type_cache()  # Else it holds names that were looked up once.
    counts[0] = sys.getallocatedblocks()
    counts[1] = len(gc.get_objects())
    if with_heap:
        use = _heap_use()
        counts[2] = use.uordblks + use.hblkhd
    counts[3:] = numpy.fromiter(
        map(sys.getrefcount, watched), numpy.int64, len(watched)
    )


def run_and_compare(
    run: Callable[[], None], watched: Sequence[Any], with_heap: bool = False
) -> list[str]:
    """Runs a test, and again until no count has moved in each further run.

    Args:
      run: The test.
      watched: Whose references are counted, besides TOTALS.
      with_heap: Bytes of malloc's, too. Not where plans are made: their cache
        forgets those that are gone now and then, which is no steady course.
    Returns:
      A line for each count that each of the last ROUNDS runs moved one way.
    """
    __tracebackhide__ = True
    # All that this needs is there before the first count.
    before, after, change, steady = numpy.zeros(
        (4, len(TOTALS) + len(watched)), numpy.int64
    )
    turn, turns = None, itertools.repeat(None, ROUNDS - 1)

    def step() -> None:
        __tracebackhide__ = True
        run()
        _count(watched, after, with_heap)
        numpy.subtract(after, before, out=change)
        before[:] = after

    step()  # It fills what the next ones find.
    step()
    if not change.any():
        return []
    step()
    steady[:] = numpy.sign(change)
    for turn in turns:  # noqa: B007
        if not steady.any():
            return []
        step()
        steady *= numpy.sign(change) == steady
    names = [*TOTALS, *(f"references of {item!r:.80}" for item in watched)]
    return [
        f"{name}: {by:+} in the last of {ROUNDS} runs"
        for name, by, moves in zip(names, change, steady, strict=True)
        if moves
    ]
