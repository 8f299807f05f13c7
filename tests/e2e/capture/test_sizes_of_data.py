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


def masked(seed: int, *size: int) -> torch.Tensor:
    """Another number of true elements for each of the first seeds."""
    mask = torch.zeros(size, dtype=torch.bool)
    mask.view(-1)[: 3 + seed % (mask.numel() - 4)] = True
    return mask


class MaskedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, a, labels, mask):
        scores = self.last(torch.relu(self.first(a)))
        chosen, wanted = scores[mask], labels[mask]
        return nn.functional.cross_entropy(chosen, wanted), scores.argmax(-1)


@pytest.mark.once("counts what is watched")
@pytest.mark.parametrize("trains", [False, True])
def test_what_varies_with_data_comes_between_graphs(trains):
    torch.manual_seed(0)
    mine, plain = MaskedLoss(), MaskedLoss()
    plain.load_state_dict(mine.state_dict())
    compiled = mica.compile(mine)
    labels = torch.randint(0, 3, (6, 5))
    watched = 0
    with torch.set_grad_enabled(trains):
        for seed in range(60):
            args = x(seed, 6, 5, 4), labels, masked(seed, 6, 5)
            got, want = compiled(*args), plain(*args)
            same(got, want)
            if trains:
                got[0].backward()
                want[0].backward()
                for ours, theirs in zip(
                    mine.parameters(), plain.parameters(), strict=True
                ):
                    same(ours.grad, theirs.grad)
                mine.zero_grad()
                plain.zero_grad()
            if seed == 20:
                watched = report(compiled).captures
    told = report(compiled)
    assert told.captures == watched, str(told)
    # The first sizes are a graph each; then there are pieces.
    assert watched <= 6, str(told)
    assert len(told.pieces) == 2
    assert any("which data decide" in b.reason for b in told.graph_breaks)
    sizes = [piece.graphs[0].sizes for piece in told.pieces]
    assert sizes[1] == ["chosen.shape[0]", "wanted.shape[0]"]


def test_a_whole_graph_is_wanted():
    compiled = mica.compile(lambda a: a[a > 0] * 2, fullgraph=True)
    for count in range(1, 10):
        a = torch.ones(12)
        a[count:] = -1
        same(compiled(a), a[a > 0] * 2)
    assert not report(compiled).graph_breaks


def test_few_sizes_stay_graphs():
    few = mica.compile(lambda a: a[a > 0] * 2)
    for call in range(40):
        a = torch.ones(12)
        a[2 + call % 4 :] = -1
        same(few(a), a[a > 0] * 2)
    told = report(few)
    assert not told.graph_breaks
    assert told.captures == 4
