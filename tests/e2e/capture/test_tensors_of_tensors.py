"""Tensors that are made of sequences with tensors in them.

Torch reads those on the host without asking the dispatcher.
"""

from __future__ import annotations

import collections

import pytest
import torch

import mica

B = torch.arange(16.0).view(4, 4)


def _at(x):
    return x[1].long()


PROGRAMS = {
    "list": lambda x: torch.tensor([x.sum(), 1.0]),
    "tuple": lambda x: torch.tensor((x.sum(), 1.0)),
    "nested": lambda x: torch.tensor([[x[1]], [x[2]]]) * 2,
    "deque": lambda x: torch.tensor(collections.deque([x[1], 1.0])),
    "as_tensor": lambda x: torch.as_tensor([x[1], 1.0]),
    "asarray": lambda x: torch.asarray([x[1], 1.0]),
    "new_tensor": lambda x: x.new_tensor([x[1], 1.0]),
    "new": lambda x: x.new([x[1], 1.0]),
    "Tensor": lambda x: torch.Tensor([x[1], 1.0]),
    "LongTensor": lambda x: torch.LongTensor([_at(x), 1]),
    "between": lambda x: (x * 2 + torch.tensor([x.sum(), 1.0]).sum()) * 3,
    "index": lambda x: B[[_at(x), 0], [1, _at(x)]],
    "constants": lambda x: x * torch.tensor([[1.0], [2.0]]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_in_the_tensors_is_read_at_each_call(name):
    program = PROGRAMS[name]
    compiled = mica.compile(program, exact=True)
    for i in (1, 1, 2, 2, 3, 3):
        x = torch.tensor([1.0, i, 3.0])
        assert torch.equal(compiled(x), program(x))


def test_a_state_that_is_written_is_read_at_each_call():
    own, twin = torch.ones(3), torch.ones(3)

    def run(state, x):
        state.add_(1)
        return x + torch.tensor([state.sum(), 1.0]).sum()

    compiled = mica.compile(lambda x: run(own, x), exact=True)
    for _ in range(4):
        assert torch.equal(compiled(torch.ones(2)), run(twin, torch.ones(2)))


def test_constants_in_lists_stay_one_graph():
    compiled = mica.compile(lambda x: x * torch.tensor([[1.0], [2.0]]))
    for i in range(3):
        compiled(torch.full((3,), float(i)))
    assert mica.explain(compiled).hits == 2
