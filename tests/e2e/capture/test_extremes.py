"""max() and min() of numbers that tensors give: one record, whichever it is."""

import math

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from torch import nn

import mica

NAN = math.nan
CALLS = [
    torch.tensor(values)
    for values in (
        [1.0, 2.0],
        [-1.0, -2.0],
        [0.1, 0.2],
        [-0.0, -0.0],
        [0.0, -0.0],
        [NAN, 1.0],
        [5.0, -7.0],
        [math.inf, 1.0],
        [-math.inf, 3.0],
    )
]


def _larger(x):
    return x * max(0.5, x.sum().item())


def _smallest(x):
    return x * min(x.sum().item(), x.mean().item(), 2.0)


def _nested(x):
    return x * -min(0.1, 1 / max(1.0, x.norm().item() / 2))


def _returned(x):
    return max(x.prod().item(), 0.0), min(-0.0, x.sum().item())


@pytest.mark.parametrize("program", [_larger, _smallest, _nested, _returned])
def test_one_record_serves_all(program):
    compiled = mica.compile(program)
    for x in CALLS * 2:
        want, got = program(x), compiled(x)
        if isinstance(want, tuple):
            assert repr(got) == repr(want)
        else:
            torch.testing.assert_close(
                got, want, rtol=0, atol=0, equal_nan=True
            )
    assert report(compiled).hits == 2 * len(CALLS) - 1


def _kind(x):
    return x * max(1, x.sum().item())


def _named(x):
    n = x.sum().item()
    return x * max(n, 0.0) + n


def _branch(x):
    return x + 1 if max(x.sum().item(), 0.0) > 1 else x - 1


def _identity(x):
    n = x.sum().item()
    return x + 1 if max(n, 0.0) is n else x - 1


@pytest.mark.parametrize("program", [_kind, _named, _branch, _identity])
def test_where_it_matters_which_one_it_is(program):
    compiled = mica.compile(program)
    for x in CALLS * 2:
        torch.testing.assert_close(
            compiled(x), program(x), rtol=0, atol=0, equal_nan=True
        )


def test_an_int_of_an_int_is_itself():
    def program(x):
        n = x.sum().item()
        return x + (int(n) is n)

    compiled = mica.compile(program)
    for number in (3, 4000, 5000):
        x = torch.tensor([number])
        same(compiled(x), program(x))


@pytest.mark.parametrize("foreach", [False, True])
def test_adafactor(foreach):
    """Its steps are clipped by what three numbers of each parameter say."""

    def make():
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = torch.optim.Adafactor(
            model.parameters(), lr=0.05, foreach=foreach
        )

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, model

    torch.set_grad_enabled(True)  # Until the fixture's end.
    torch.manual_seed(0)
    eager, eagers = make()
    torch.manual_seed(0)
    step, served = make()
    compiled = mica.compile(step)
    for seed in range(9):
        torch.manual_seed(seed)
        x = torch.randn(3, 4) * (1 + seed % 3)
        torch.testing.assert_close(compiled(x), eager(x))
    for mine, theirs in zip(
        served.parameters(), eagers.parameters(), strict=True
    ):
        torch.testing.assert_close(mine, theirs)
    assert report(compiled).hits == 7
