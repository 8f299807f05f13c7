"""numpy beside torch: arrays of constants, tensors that share their memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import check, report, same, x
from torch import nn

import mica

CALLS = [(x(seed),) for seed in range(4)]
PRUNED = nn.Parameter(torch.tensor([1.0, 0.0, 1.0, 1.0]))


def eye(a):
    flat = np.array([1, 0, 0, 1]).astype(np.float32)
    return a + torch.from_numpy(flat)


def zeros(a):
    return a + torch.tensor(np.zeros((a.shape[0], 1))).float()


def prod(a):
    return a * int(np.prod(a.shape))


def selected(a):
    return a[:, np.squeeze(np.argwhere(PRUNED.data.cpu().numpy()))]


def sizes(a):
    height, width = torch.tensor(a.size()).tolist()
    return a.view(width, height)


def smallest(a):
    least = np.finfo(torch.tensor(0, dtype=a.dtype).numpy().dtype).min
    return a.masked_fill(a > 0, float(least))


def filled(a):
    mask = np.zeros((3, 4), dtype=bool)
    mask[0, 1] = True
    mask |= np.triu(np.ones((3, 4)), 2) > 0
    return a.masked_fill(torch.from_numpy(mask), 0)


def grid(a):
    row = torch.as_tensor(np.linspace(0, 1, 4), dtype=torch.float32)
    return a + row + torch.from_numpy(np.mgrid[0:3, 0:4][0]).float()


def of_scalars(a):
    return a * float(np.float32(0.1) + np.sqrt(2.0)) + np.int64(3).item()


def of_a_list(a):
    parts = np.split(np.arange(8), 2)
    return a[:, torch.from_numpy(np.concatenate(parts)[1:4] % 4)]


def spread(a):
    rows, columns = np.meshgrid(np.arange(3), np.arange(4), indexing="ij")
    wide = np.broadcast_to(np.arange(4.0), (3, 4))
    return a + torch.from_numpy(rows + np.roll(columns, 1) + wide)


def diagonal(a):
    square = np.eye(4) + np.diag([1.0, 2.0, 3.0, 4.0])
    square.flat[1] = 5.0
    like = np.zeros_like(square)
    like[0] = 2.0
    return a @ torch.from_numpy(square + like).float()


def padded(a):
    row = np.pad(np.ones(2), 1)
    assert row.flags.c_contiguous
    return a + torch.from_numpy(row) + float(np.interp(0.5, [0, 1], [2, 3]))


def seeded(a):
    old = np.random.RandomState(3)
    new = np.random.default_rng(seed=4)
    return (
        a * old.rand() + torch.from_numpy(new.normal(size=4)) + old.randint(9)
    )


@pytest.mark.parametrize(
    "f",
    [
        spread,
        diagonal,
        padded,
        seeded,
        eye,
        zeros,
        prod,
        selected,
        sizes,
        filled,
        grid,
        of_scalars,
        of_a_list,
    ],
)
def test_arrays_of_constants(f):
    check(f, *CALLS, hits=3)


def test_what_numpy_makes_once():
    check(smallest, *CALLS)


def test_new_contents_of_a_guarded_array():
    table = np.ones(4, dtype=np.float32)

    def f(a):
        return a + torch.from_numpy(table.copy())

    compiled = mica.compile(f)
    for value in (1.0, 1.0, 2.0, 2.0, 1.0):
        table[:] = value
        same(compiled(x(0)), x(0) + value)
    assert report(compiled).hits == 3


def test_a_parameter_that_numpy_read_changes():
    kept = nn.Parameter(torch.tensor([1.0, 0.0, 1.0]))

    def f(a):
        return a * int(np.count_nonzero(kept.data.numpy()))

    compiled = mica.compile(f)
    for values in ([1.0, 0, 1], [1.0, 0, 1], [1.0, 1, 1], [0.0, 0, 1]):
        kept.data.copy_(torch.tensor(values))
        same(compiled(x(0)), x(0) * int(sum(values)))


def reads_values(a):
    return a * math.fsum(a[0].tolist())


def reads_an_array(a):
    return a * float(a[0, :2].numpy().sum())


def writes_into_a_constant(a):
    array = np.zeros(3, dtype=np.float32)
    tensor = torch.from_numpy(array)
    b = a + tensor[:, None]
    array[0] = 5
    return b + tensor[:, None]


def writes_into_a_tensor(a):
    tensor = a[0].clone()
    tensor.numpy().put(0, 7)
    return a + tensor


def torch_writes_into_an_array(a):
    array = np.ones(4, dtype=np.float32)
    torch.from_numpy(array).mul_(a[0, 0].sign())
    return a * float(array.sum())


def random_numbers(a):
    return a + float(np.random.rand(4)[1]) * 0


def many_numbers(a):
    return a * len([v for v in a.repeat(9, 9).flatten().tolist() if v > 0])


@pytest.mark.parametrize(
    "f",
    [
        reads_values,
        reads_an_array,
        writes_into_a_constant,
        writes_into_a_tensor,
        torch_writes_into_an_array,
        random_numbers,
        many_numbers,
    ],
)
def test_what_differs_is_never_served(f):
    check(f, *CALLS, hits=0)


def test_numbers_read_are_compared_bit_for_bit():
    check(reads_values, (x(0),), (x(0),), (x(1),), (x(0),), hits=2)


def test_requires_grad_of_a_new_tensor():
    def f(a):
        mask = torch.ones(3, 4)
        mask.requires_grad = False
        return a * mask

    check(f, *CALLS, hits=3)


def test_generators_without_a_seed_run_eagerly():
    def f(a):
        return a * np.random.RandomState().rand()

    fn = mica.compile(f)
    a = x(0)
    assert len({float(fn(a).sum()) for _ in range(5)}) == 5
    assert not report(fn).hits


def test_numpys_own_generator_runs_eagerly():
    def f(a):
        return a * np.random.rand()

    fn = mica.compile(f)
    for (a,) in CALLS:
        np.random.seed(5)
        want = f(a)
        np.random.seed(5)
        same(fn(a), want)


def test_a_view_of_an_older_array_is_the_older_ones():
    table = np.ones(4)

    def f(a):
        table.flat[0] += 1
        table.T[1] = table[0]
        return a + float(table.sum())

    fn = mica.compile(f)
    plain = 4.0
    for _ in range(4):
        (a,) = CALLS[0]
        got = fn(a)
        assert torch.equal(got, a + float(table.sum()))
        assert table.sum() > plain
        plain = table.sum()
