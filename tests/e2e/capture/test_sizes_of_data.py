"""Sizes that depend on what tensors hold: kept, and a miss when they differ."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import check, report, same, x
from torch import nn

import mica

FEW = torch.tensor([1.0, -2, 3, -4, 5])
FEW_TOO = torch.tensor([-1.0, 2, -3, 4, 5]).flip(0)
ALL = torch.ones(5)
NONE = -torch.ones(5)
CALLS = [(FEW,), (FEW * 2,), (ALL,), (FEW_TOO,), (NONE,), (ALL,)]

PROGRAMS = {
    "a mask": lambda a: a[a > 0] * 2,
    "a mask twice": lambda a: (a[a > 0] + 1)[a[a > 0] > 2],
    "masked_select": lambda a: torch.masked_select(a, a > 0).sum(),
    "nonzero": lambda a: a[(a > 0).nonzero().squeeze(1)],
    "where": lambda a: [i.float() for i in torch.where(a > 0)],
    "only the size": lambda a: a * (a > 0).nonzero().shape[0],
    "only whether": lambda a: a if a[a > 0].numel() else -a,
    "unique": lambda a: torch.unique(a.sign()),
    "a written mask": lambda a: a.clone().masked_fill_(a > 0, 3.0),
    "a mean of some": lambda a: torch.nn.functional.l1_loss(
        a[a > 0], a[a > 0] * 0.5, reduction="sum"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_size_of_data(name):
    compiled = check(PROGRAMS[name], *CALLS)
    told = report(compiled)
    assert not told.refusals, str(told)
    assert told.hits >= 1
    assert told.hits + told.captures == len(CALLS)


def test_each_size_is_a_record():
    compiled = check(PROGRAMS["a mask"], *CALLS, *CALLS)
    told = report(compiled)
    # Three of five, five of five, none of five.
    assert (told.captures, told.hits) == (3, 9)


def test_a_miss_after_the_size_changes_nothing():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.calls = 0

        def forward(self, a):
            self.calls += 1
            self.seen += a.sum()
            return a[a > 0]

    mine, plain = Net(), Net()
    compiled = mica.compile(mine)
    for (a,) in CALLS:
        same(compiled(a), plain(a))
        same(mine.seen, plain.seen)
        assert mine.calls == plain.calls


def test_a_training_step_over_chosen_rows():
    torch.manual_seed(0)
    mine = nn.Linear(4, 2)
    plain = nn.Linear(4, 2)
    plain.load_state_dict(mine.state_dict())

    def make(net):
        def step(a, keep):
            loss = net(a)[keep > 0].square().sum()
            loss.backward()
            return loss

        return step

    compiled = mica.compile(make(mine))
    eager = make(plain)
    masks = [torch.tensor(m) for m in ([1, 0, 1], [1, 1, 0], [1, 1, 1])]
    with torch.enable_grad():
        for seed in range(9):
            keep = masks[seed // 3]
            same(compiled(x(seed), keep), eager(x(seed), keep))
            same(mine.weight.grad, plain.weight.grad)
            if seed % 2:
                mine.zero_grad()
                plain.zero_grad()


def test_packed_sequences():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(4, 3, batch_first=True, bidirectional=True)

        def forward(self, a, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(
                a, lengths, batch_first=True, enforce_sorted=False
            )
            out, (h, _) = self.rnn(packed)
            padded, sizes = nn.utils.rnn.pad_packed_sequence(
                out, batch_first=True
            )
            return padded, h, sizes

    net = Net().eval()
    some, others = torch.tensor([5, 3, 2]), torch.tensor([2, 3, 5])
    fewer = torch.tensor([4, 1, 1])
    compiled = check(
        net,
        *[(x(i, 3, 5, 4), n) for i, n in enumerate([some, some, fewer])],
        *[(x(i, 3, 5, 4), n) for i, n in enumerate([some, others, fewer])],
    )
    assert report(compiled).hits >= 2, str(report(compiled))
