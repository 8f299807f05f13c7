"""Programs with loops that go as often as sizes say; of doubles."""

from __future__ import annotations

import torch
from torch import nn


def make_rows(length: int) -> torch.Tensor:
    return torch.randn(length, 3, 8, dtype=torch.float64)


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(8, 8, dtype=torch.float64)

    def step(self, h: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.cell(h) + x)


class Last(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[1:])
        for t in range(x.shape[0]):
            h = self.step(h, x[t])
        return h


class All(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, outs = x.new_zeros(x.shape[1:]), []
        for t in range(x.size(0)):
            h = self.step(h, x[t])
            outs.append(h)
        return torch.stack(outs)


class BothWays(Cell):
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


class FromNone(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, outs = None, []
        for row in x:
            h = row if h is None else self.step(h, row)
            outs.append(h)
        return torch.cat(outs, 0)


class OwnList(Cell):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hs = [x.new_zeros(x.shape[1:])]
        for t in range(x.shape[0]):
            hs.append(self.step(hs[t], x[t]))
            hs[-1] = (hs[-1] + hs[-2]) / 2
        return torch.stack(hs)


class Layers(nn.Module):
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


class LayerByLayer(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for cell in self.cells:
            state, outs = (x.new_zeros(x.shape[1:]),) * 2, []
            for t in range(x.shape[0]):
                state = cell(x[t], state)
                outs.append(state[0])
            x = torch.stack(outs)
        return x


class ListByList(Cell):
    """Two layers, each of which goes through a list of what is below it."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(8, 8, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = list(x)
        for layer in (self.cell, self.second):
            h, outs = x.new_zeros(x.shape[1:]), []
            for row in rows:
                h = torch.tanh(layer(h) + row)
                outs.append(h)
            rows = outs
        return torch.stack(rows)


def comprehension(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[i].relu() for i in range(x.shape[0])])


def counted(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * i for i, row in enumerate(x)])


def zipped(x: torch.Tensor) -> torch.Tensor:
    outs = []
    for i, (a, b) in enumerate(zip(x, x.flip(0), strict=True)):
        outs.append(a - b * i)
    return torch.stack(outs)


def split(x: torch.Tensor) -> torch.Tensor:
    parts, outs, before = x.split(1), [], None
    for i, h in enumerate((x * 2).split(1)):
        if before is not None:
            h = h + (1 - parts[i]) * before
        h = h.view(h.size()[1:])
        outs.append(h)
        before = h
    return torch.stack(outs)


def written(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * i
    return y


def summed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i in range(1, x.shape[0]):
        y[i] += y[i - 1]
    return y


def twice(x: torch.Tensor) -> torch.Tensor:
    outs = [x[i].exp() for i in range(x.shape[0])]
    more = []
    for one in outs:
        more.append(one + outs[0])
    return torch.stack(more) * outs[-1]


def backwards(x: torch.Tensor) -> torch.Tensor:
    outs = [row.exp() for row in x]
    more = []
    for i, one in enumerate(reversed(outs), 1):
        more.append(one * i)
    return torch.stack(more)


def extended(x: torch.Tensor) -> torch.Tensor:
    outs = []
    for i in range(x.shape[0]):
        outs += [x.select(0, i) * 2]
        outs.extend([x.narrow(0, i, 1)[0] - 1])
    return torch.stack(outs)


def repeated(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.mean(0, keepdim=True)] * x.shape[0]) + x


def kept(x: torch.Tensor) -> torch.Tensor:
    first, h = None, x[0]
    for i in range(x.shape[0]):
        h = torch.tanh(h + x[i])
        first = h if first is None else first
    return first + h


def state(x: torch.Tensor) -> torch.Tensor:
    state = {"h": x[0], "c": x[1]}
    for i in range(x.shape[0]):
        state["h"], state["c"] = state["c"], torch.tanh(state["h"] + x[i])
    return state["h"] - state["c"]


def parity(x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for i in range(x.shape[0]):
        y = y + x[i % 2] / (x.shape[0] - i)
    return y


FORMS = (
    comprehension,
    counted,
    zipped,
    split,
    written,
    summed,
    twice,
    backwards,
    extended,
    repeated,
    kept,
    state,
    parity,
)


# Of loops that take a few rounds to settle.


def counting(x: torch.Tensor) -> torch.Tensor:
    y, count, weight = x[0], 0, 1
    for row in x:
        y = torch.tanh(y + row * weight)
        count += 1
        weight = 3 - 2 * weight + count
    return y / count


def while_below(x: torch.Tensor) -> torch.Tensor:
    y, i = x[0], 0
    while i < x.size(0):
        y = torch.tanh(y + x[i] * i)
        i += 1
    return y * i


def while_above(x: torch.Tensor) -> torch.Tensor:
    i, outs = x.shape[0] - 1, []
    while i >= 0:
        outs.append(x[i].exp())
        i -= 1
    return torch.stack(outs)


def while_some(x: torch.Tensor) -> torch.Tensor:
    y, n = x[0], len(x)
    while n:
        n -= 1
        y = torch.tanh(y * n + x[n])
    return y


def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    h, outs = x[0], []
    for row in x:
        h = torch.tanh(h + row)
        outs.append(h)
    g, more = h, []
    for one in outs:
        g = torch.tanh(g * 0.5 + one * outs[-1] + outs[0])
        more.append(g)
    return torch.stack(more)


def there_and_back(x: torch.Tensor) -> torch.Tensor:
    h, there = x[0], []
    for t in range(x.shape[0]):
        h = torch.tanh(h + x[t])
        there.append(h)
    h, back = x[0], []
    for t in reversed(range(x.shape[0])):
        h = torch.tanh(h + x[t])
        back.insert(0, h)
    return torch.cat([torch.stack(there), torch.stack(back)], -1)


def neighbours(x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for a, b in zip(x[:-1], x[1:], strict=True):
        y = torch.tanh(y + a * b)
    return y


def listed(x: torch.Tensor) -> torch.Tensor:
    rows = list(x)
    for _ in range(3):
        h, outs = rows[0] * 0, []
        for row in rows:
            h = torch.tanh(h + row)
            outs.append(h)
        rows = outs
    return torch.stack(rows)


def without_the_first(x: torch.Tensor) -> torch.Tensor:
    hs = [x[0], x[1]]
    for row in x:
        hs.append(torch.tanh(hs[-1] - hs[-2] + row))
    return torch.stack(hs[2:])


def attended(x: torch.Tensor) -> torch.Tensor:
    """An encoder over the rows, and a decoder over half of them."""
    h, outs, i = x[0], [], 0
    while i < x.shape[0]:
        h = torch.tanh(h + x[i])
        outs.append(h)
        i += 1
    states, found, j = torch.stack(outs), [], 0
    while j < x.shape[0] // 2:
        weights = torch.softmax((states * h).sum(-1), 0)
        h = torch.tanh((weights[..., None] * states).sum(0) + x[j])
        found.append(h)
        j += 1
    return torch.stack(found)


LONGER_FORMS = (
    counting,
    while_below,
    while_above,
    while_some,
    one_after_the_other,
    there_and_back,
    neighbours,
    listed,
    without_the_first,
    attended,
)
