"""Loops that go as often as sizes say: one graph for any number of rounds."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from e2e.capture.looped_programs import (
    FORMS,
    LONGER_FORMS,
    All,
    BothWays,
    FromNone,
    Last,
    LayerByLayer,
    Layers,
    OwnList,
    make_rows,
)
from torch import nn

import mica

LENGTHS = (4, 6, 3, 9, 5, 12, 2, 7)


def _served(
    fn: Callable[[torch.Tensor], torch.Tensor],
    make: Callable[[int], torch.Tensor],
    lengths: tuple[int, ...] = LENGTHS,
) -> int:
    """Calls `fn`, compiled, at ever other lengths; returns its captures."""
    fast = mica.compile(fn)
    with torch.no_grad():
        for length in lengths * 2:
            given = make(length)
            got, wanted = fast(given), fn(given)
            assert got.shape == wanted.shape
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)
    return mica.explain(fast).captures


@pytest.mark.parametrize(
    "model",
    [
        Last,
        All,
        BothWays,
        FromNone,
        OwnList,
        Layers,
        LayerByLayer,
    ],
)
def test_a_recurrent_model_is_captured_twice(
    model: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    assert _served(model().eval(), make_rows) == 2


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN, nn.LSTM])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True}],
)
def test_torchs_own_layers(kind: type[nn.Module], options: dict) -> None:
    model = kind(8, 5, dtype=torch.float64, **options).eval()

    def run(x: torch.Tensor) -> torch.Tensor:
        return model(x)[0] * 2

    def make(length: int) -> torch.Tensor:
        rows = make_rows(length)
        return rows.transpose(0, 1) if options.get("batch_first") else rows

    assert _served(run, make) == 2


@pytest.mark.parametrize(
    "fn",
    FORMS,
    ids=lambda fn: fn.__name__,
)
def test_forms_of_loops(fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    # range(1, n) goes once for two rows, which is another graph.
    assert _served(fn, make_rows) <= 3


@pytest.mark.parametrize("fn", LONGER_FORMS, ids=lambda fn: fn.__name__)
def test_loops_that_take_rounds_to_settle(
    fn: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    lengths = (8, 12, 16, 9, 13, 6, 7, 30)
    assert _served(fn, make_rows, lengths) == 2
    # Of short ones each may be a graph.
    _served(fn, make_rows)


def test_a_loop_goes_by_an_int_beside_sizes() -> None:
    def below(x: torch.Tensor, n: int) -> torch.Tensor:
        i = 0
        while i < n:
            x = torch.tanh(x + i)
            i += 1
        return x

    fast = mica.compile(below)
    with torch.no_grad():
        for n in (5, 8, 6, 12, 9, 7, 20, 5, 11):
            rows = make_rows(n + n % 2)
            torch.testing.assert_close(fast(rows, n), below(rows, n))
    assert mica.explain(fast).captures <= 5


def test_loops_by_sizes_of_their_own() -> None:
    """One run goes through both of two loops more often than the other."""

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, outs = x[0], []
        for row in x:
            h = torch.tanh(h + row)
            outs.append(h)
        states = torch.stack(outs)
        for row in y:
            weights = torch.softmax((states * h).sum(-1), 0)
            h = torch.tanh((weights[..., None] * states).sum(0) + row)
        return h

    fast = mica.compile(both)
    with torch.no_grad():
        for a, b in ((5, 6), (8, 9), (4, 12), (12, 4), (7, 7), (3, 20)):
            x, y = make_rows(a), make_rows(b)
            torch.testing.assert_close(fast(x, y), both(x, y))
    assert mica.explain(fast).captures == 2


# What a round does may depend on more than what it begins with: then each
# number of rounds is a graph, or those for which it is known have one.


def _counter(x: torch.Tensor) -> torch.Tensor:
    y, count = x[0], 0
    for i in range(x.shape[0]):
        count += 1
        y = y + x[i] * count
    return y


def _slots(x: torch.Tensor) -> torch.Tensor:
    slots = [x[0], x[1]]
    for i in range(x.shape[0]):
        slots[i % 2] = torch.tanh(slots[0] + x[i])
    return slots[0] - slots[1]


def _swapped(x: torch.Tensor) -> torch.Tensor:
    a, b, c = x[0], x[1] * 2, x[0] * 0
    for i in range(x.shape[0]):
        a, b = b, a
        c = c + a
    return a - b * c


def _swapped_sizes(x: torch.Tensor) -> torch.Tensor:
    a, b = x.shape[0], x.shape[0] * 2
    for _ in range(x.shape[0]):
        a, b = b, a
    return x.sum(0) * a


def _late(x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for i in range(x.shape[0]):
        y = y + (x[i] * 5 if i > 6 else x[i])
    return y


def _table(x: torch.Tensor) -> torch.Tensor:
    y, table = x[0], [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233]
    for i in range(x.shape[0]):
        y = y + x[i] * table[i]
    return y


def _length(x: torch.Tensor) -> torch.Tensor:
    outs = []
    for i in range(x.shape[0]):
        outs.append(x[i])
    return torch.stack(outs) * len(outs)


def _repeats(x: torch.Tensor) -> torch.Tensor:
    rows = [x.mean(0, keepdim=True)] * x.shape[0]
    return torch.cat(rows) * (2 if len(rows) > 6 else 1)


def _repeats_counted(x: torch.Tensor) -> torch.Tensor:
    rows, count = [x.mean(0, keepdim=True)] * x.shape[0], 0
    for _ in rows:
        count += 1
    return torch.cat(rows) * (2 if count > 6 else 1)


def _parts(x: torch.Tensor) -> torch.Tensor:
    parts, y = x.unbind(0), x[0]
    for part in parts:
        y = y + part
    return y * len(parts)


def _versions(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x[0])
    for i in range(x.shape[0]):
        y += x[i] if y._version < 7 else x[i] * 3
    return y


def _iterator(x: torch.Tensor) -> torch.Tensor:
    weights, y = iter(range(1, 100)), x[0]
    for i in range(x.shape[0]):
        y = y + x[i] * next(weights)
    return y


def _object(x: torch.Tensor) -> torch.Tensor:
    class State:
        n = 0

    state, y = State(), x[0]
    for i in range(x.shape[0]):
        state.n += 1
        y = y + x[i] * state.n
    return y


def _left(x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for i in range(x.shape[0]):
        y = y + x[i]
        if i == 4:
            break
    return y


def _cached(x: torch.Tensor) -> torch.Tensor:
    @functools.lru_cache(maxsize=2)
    def weigh(k: int) -> int:
        calls.append(k)
        return len(calls)

    calls: list[int] = []
    y = x[0]
    for i in range(x.shape[0]):
        y = y + x[i] * weigh(0)
    return y


def _members(x: torch.Tensor) -> torch.Tensor:
    seen, y = set(), x[0]
    for i in range(x.shape[0]):
        seen.add(i % 3)
        y = y + x[i] * len(seen)
    return y


@pytest.mark.parametrize(
    "fn",
    [
        _counter,
        _slots,
        _swapped,
        _swapped_sizes,
        _late,
        _table,
        _length,
        _repeats,
        _repeats_counted,
        _parts,
        _versions,
        _iterator,
        _object,
        _left,
        _cached,
        _members,
    ],
    ids=lambda fn: fn.__name__,
)
def test_what_differs_from_round_to_round_is_right(
    fn: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    _served(fn, make_rows)


def test_results_count_their_writes_and_rounds() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            y[i] = x[i]
        return y, i

    fast = mica.compile(fn)
    with torch.no_grad():
        for length in LENGTHS:
            y, last = fast(make_rows(length))
            assert (y._version, last) == (length, length - 1)
    assert mica.explain(fast).captures == 2


def test_indices_beyond_a_tensor_raise() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for i in range(x.shape[0]):
            x = x + y[i]
        return x

    fast = mica.compile(fn)
    with torch.no_grad():
        for length in (3, 5, 4, 8):
            given = torch.randn(length, 2), torch.randn(8, 1)
            torch.testing.assert_close(fast(*given), fn(*given))
        for call in (fn, fast):
            with pytest.raises(IndexError):
                call(torch.randn(9, 2), torch.randn(8, 1))
