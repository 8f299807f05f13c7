"""Loops that go as often as sizes say: one graph for any number of rounds."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
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


def _rows(length: int) -> torch.Tensor:
    return torch.randn(length, 3, 8, dtype=torch.float64)


class _Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(8, 8, dtype=torch.float64)

    def step(self, h: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.cell(h) + x)


class _Last(_Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[1:])
        for t in range(x.shape[0]):
            h = self.step(h, x[t])
        return h


class _All(_Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, outs = x.new_zeros(x.shape[1:]), []
        for t in range(x.size(0)):
            h = self.step(h, x[t])
            outs.append(h)
        return torch.stack(outs)


class _BothWays(_Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        there, back = [], []
        h = x.new_zeros(x.shape[1:])
        for t in range(len(x)):
            h = self.step(h, x[t])
            there.append(h)
        h = x.new_zeros(x.shape[1:])
        for t in range(x.shape[0] - 1, -1, -1):
            h = self.step(h, x[t])
            back.append(h)
        return torch.cat([torch.stack(there), torch.stack(back[::-1])], -1)


class _FromNone(_Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, outs = None, []
        for row in x:
            h = row if h is None else self.step(h, row)
            outs.append(h)
        return torch.cat(outs, 0)


class _OwnList(_Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hs = [x.new_zeros(x.shape[1:])]
        for t in range(x.shape[0]):
            hs.append(self.step(hs[t], x[t]))
            hs[-1] = (hs[-1] + hs[-2]) / 2
        return torch.stack(hs)


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        cells = [nn.LSTMCell(8, 8, dtype=torch.float64) for _ in range(3)]
        self.cells = nn.ModuleList(cells)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = [(x.new_zeros(x.shape[1:]),) * 2 for _ in self.cells]
        outs = []
        for t in range(x.shape[0]):
            row = x[t]
            for i, cell in enumerate(self.cells):
                states[i] = cell(row, states[i])
                row = states[i][0]
            outs.append(row)
        return torch.stack(outs)


class _LayerByLayer(_Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for cell in self.cells:
            state, outs = (x.new_zeros(x.shape[1:]),) * 2, []
            for t in range(x.shape[0]):
                state = cell(x[t], state)
                outs.append(state[0])
            x = torch.stack(outs)
        return x


@pytest.mark.parametrize(
    "model",
    [
        _Last,
        _All,
        _BothWays,
        _FromNone,
        _OwnList,
        _Layers,
        _LayerByLayer,
    ],
)
def test_a_recurrent_model_is_captured_twice(
    model: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    assert _served(model().eval(), _rows) == 2


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
        rows = _rows(length)
        return rows.transpose(0, 1) if options.get("batch_first") else rows

    assert _served(run, make) == 2


def _comprehension(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[i].relu() for i in range(x.shape[0])])


def _counted(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * i for i, row in enumerate(x)])


def _zipped(x: torch.Tensor) -> torch.Tensor:
    outs = []
    for i, (a, b) in enumerate(zip(x, x.flip(0), strict=True)):
        outs.append(a - b * i)
    return torch.stack(outs)


def _split(x: torch.Tensor) -> torch.Tensor:
    parts, outs, before = x.split(1), [], None
    for i, h in enumerate((x * 2).split(1)):
        if before is not None:
            h = h + (1 - parts[i]) * before
        h = h.view(h.size()[1:])
        outs.append(h)
        before = h
    return torch.stack(outs)


def _written(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * i
    return y


def _summed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i in range(1, x.shape[0]):
        y[i] += y[i - 1]
    return y


def _twice(x: torch.Tensor) -> torch.Tensor:
    outs = [x[i].exp() for i in range(x.shape[0])]
    more = []
    for one in outs:
        more.append(one + outs[0])
    return torch.stack(more) * outs[-1]


def _backwards(x: torch.Tensor) -> torch.Tensor:
    outs = [row.exp() for row in x]
    more = []
    for i, one in enumerate(reversed(outs), 1):
        more.append(one * i)
    return torch.stack(more)


def _extended(x: torch.Tensor) -> torch.Tensor:
    outs = []
    for i in range(x.shape[0]):
        outs += [x.select(0, i) * 2]
        outs.extend([x.narrow(0, i, 1)[0] - 1])
    return torch.stack(outs)


def _repeated(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.mean(0, keepdim=True)] * x.shape[0]) + x


def _kept(x: torch.Tensor) -> torch.Tensor:
    first, h = None, x[0]
    for i in range(x.shape[0]):
        h = torch.tanh(h + x[i])
        first = h if first is None else first
    return first + h


def _state(x: torch.Tensor) -> torch.Tensor:
    state = {"h": x[0], "c": x[1]}
    for i in range(x.shape[0]):
        state["h"], state["c"] = state["c"], torch.tanh(state["h"] + x[i])
    return state["h"] - state["c"]


def _parity(x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for i in range(x.shape[0]):
        y = y + x[i % 2] / (x.shape[0] - i)
    return y


@pytest.mark.parametrize(
    "fn",
    [
        _comprehension,
        _counted,
        _zipped,
        _split,
        _written,
        _summed,
        _twice,
        _backwards,
        _extended,
        _repeated,
        _kept,
        _state,
        _parity,
    ],
    ids=lambda fn: fn.__name__,
)
def test_forms_of_loops(fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    # range(1, n) goes once for two rows, which is another graph.
    assert _served(fn, _rows) <= 3


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
    _served(fn, _rows)


def test_results_count_their_writes_and_rounds() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            y[i] = x[i]
        return y, i

    fast = mica.compile(fn)
    with torch.no_grad():
        for length in LENGTHS:
            y, last = fast(_rows(length))
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
