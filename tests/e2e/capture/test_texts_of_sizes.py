"""Texts that a program makes of sizes: they vary with these."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica

Program = Callable[[torch.Tensor], Any]
ROWS = (3, 5, 7, 9, 4, 6, 8, 3, 5, 11)


def _assert_alike(fn: Program, most: int) -> None:
    fast = mica.compile(fn)
    for rows in ROWS:
        x = torch.randn(rows, 4)
        told, wanted_told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(wanted_told):
            wanted = fn(x)
        with contextlib.redirect_stdout(told):
            got = fast(x)
        assert told.getvalue() == wanted_told.getvalue()
        torch.testing.assert_close(got, wanted)
    assert mica.explain(fast).captures <= most


def _printed(x: torch.Tensor) -> torch.Tensor:
    print(f"{x.size(0)} rows of {x.shape[1]}, {x.numel():>6}")
    return x * 2


def _formatted(x: torch.Tensor) -> torch.Tensor:
    print("{} rows".format(x.size(0)), "%d of them" % (len(x) * 2))  # noqa: UP031, UP032
    return x * 2


def _joined(x: torch.Tensor) -> torch.Tensor:
    print("n=" + str(x.size(0)), repr(x.shape[0]))
    return x * 2


@pytest.mark.parametrize("fn", [_printed, _formatted, _joined])
def test_what_is_printed_varies(fn: Program) -> None:
    _assert_alike(fn, 2)


def test_what_is_returned_varies() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        return x + 1, f"{x.size(0)}x{x.size(1)}"

    fast = mica.compile(fn)
    for rows in ROWS:
        assert fast(torch.randn(rows, 4))[1] == f"{rows}x4"
    assert mica.explain(fast).captures == 2


def test_whoever_looks_at_one_keeps_the_sizes() -> None:
    def keyed(x: torch.Tensor) -> torch.Tensor:
        name = f"n{x.size(0)}"
        print(name)
        return {name: x * 2, "n3": x * 3}["n3"]

    def compared(x: torch.Tensor) -> torch.Tensor:
        name = f"{x.size(0)}"
        print(name)
        return x * 2 if name == "5" else x * 3

    def long(x: torch.Tensor) -> torch.Tensor:
        name = f"{x.size(0) * 100}"
        print(name)
        return x * len(name)

    def number(x: torch.Tensor) -> torch.Tensor:
        name = f"{x.size(0)}"
        print(name)
        return x * int(name)

    for fn in (keyed, compared, long, number):
        _assert_alike(fn, len(ROWS))


def test_a_pattern_of_sizes_goes_to_an_operator() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        name = f"{x.size(0)}"
        return x.view(int(name), -1) * len(x)

    _assert_alike(fn, len(ROWS))
