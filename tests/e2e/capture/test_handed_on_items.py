"""Items that iterators and calls in C hand on, and sizes by data."""

from __future__ import annotations

from collections import namedtuple

import torch
from e2e.capture.agreement_of_calls import call_and_tell, check, same, x
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import mica

Transition = namedtuple("Transition", ("state", "action", "reward"))


def test_arguments_from_a_zip():
    """As what a replay memory has is put together."""
    memory = [Transition(x(i, 1, 4), i % 2, float(i)) for i in range(6)]

    def batch(scale):
        rows = Transition(*zip(*memory))
        states = torch.cat(rows.state) * scale
        return states, torch.tensor(rows.action), rows.reward

    check(batch, *[(x(i, 1),) for i in range(4)], hits=3)
    memory[2] = Transition(x(9, 1, 4), 1, -1.0)
    check(batch, *[(x(i, 1),) for i in range(3)], hits=2)


def test_arguments_from_an_enumerate_of_new_items():
    def program(a, b):
        def last(*pairs):
            return pairs[-1][1] * pairs[0][0] + pairs[0][1] * pairs[-1][0]

        return last(*enumerate([a, b]))

    check(program, *[(x(i), x(i + 5)) for i in range(4)], hits=3)


def test_arguments_that_python_code_gives():
    """Its items come of code that a graph has to follow, or to leave alone."""

    def program(a):
        seen = []

        def twice(t):
            seen.append(t.shape[0])
            return t * 2

        def join(*parts):
            return torch.cat(parts), seen

        return join(*zip(*[map(twice, (a, a + 1))]).__next__())

    check(program, *[(x(i),) for i in range(4)])


def test_numbers_in_a_dict_of_keywords():
    def program(a, b):
        return dict(
            loss=a.sum().item(), other=(b * 2).sum().item(), name="n", at=a
        )

    check(program, *[(x(i), x(i + 5)) for i in range(6)], hits=5)


def test_numbers_in_a_dict_that_are_looked_at():
    def program(a):
        found = dict(loss=a.sum().item(), step=1)
        found["step"] += 1
        return a * 2 if found["loss"] > 0 else a, found

    check(program, *[(x(i),) for i in range(6)])


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.rnn = nn.LSTM(4, 4, batch_first=True)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.embed(words), lengths, batch_first=True, enforce_sorted=False
        )
        out, (h, _) = self.rnn(packed)
        return pad_packed_sequence(out, batch_first=True)[0], h


def test_lengths_of_packed_sequences_may_change():
    """Other lengths give other sizes: a miss, and no failure."""
    torch.manual_seed(0)
    model = Tagger()
    compiled = mica.compile(model)
    lengths = [[5, 3, 4], [5, 3, 4], [5, 2, 4], [5, 2, 4], [5, 3, 4], [5, 2, 4]]
    letters = ""
    for i, row in enumerate(lengths):
        words = torch.randint(
            20, (3, 5), generator=torch.Generator().manual_seed(i)
        )
        args = (words, torch.tensor(row))
        with torch.enable_grad():
            got, letter = call_and_tell(compiled, *args)
            same(got, model(*args))
            got[0].sum().backward()
        letters += letter
    assert letters == "chchhh"
    assert not mica.explain(compiled).eager_calls
