"""Functions of TorchScript, and torch's higher-order operators."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, check, report, same, x

import mica

CALLS = [(x(seed),) for seed in range(4)]


@torch.jit.script
def swish(a: torch.Tensor) -> torch.Tensor:
    return a * torch.sigmoid(a)


@torch.jit.script
def swish_(a: torch.Tensor) -> torch.Tensor:
    return a.mul_(torch.sigmoid(a))


@torch.jit.script
def looped(a: torch.Tensor, count: int) -> tuple[torch.Tensor, int]:
    if a.size(0) > 2:
        for i in range(count):
            a = a + i
    return a, a.dim()


@torch.jit.script
def branches(a: torch.Tensor) -> torch.Tensor:
    if bool(a.sum() > 0):
        return a * 2
    return a - 1


@torch.jit.script
def prints(a: torch.Tensor) -> torch.Tensor:
    print("hello")
    return a + 1


@torch.jit.script
def makes(a: torch.Tensor, value: float) -> torch.Tensor:
    return a + torch.tensor([value, 2.0, 3.0, 4.0])


def of_one(a):
    b, dims = looped(swish(a), 3)
    return swish_(b + dims), dims


def test_script_functions_are_followed():
    with torch.no_grad():
        check(of_one, *CALLS, hits=3)


def test_a_branch_on_data_in_one_is_guarded():
    fn = mica.compile(branches)
    for (a,) in [(x(0).abs(),), (x(1).abs(),), (-x(2).abs(),), (x(3).abs(),)]:
        same(fn(a), branches(a))


@pytest.mark.parametrize("count", [2, 5])
def test_the_numbers_that_one_is_given_are_guarded(count):
    fn = mica.compile(lambda a, n: looped(a, n)[0])
    for n in (count, count, count + 1, count):
        same(fn(x(0), n), looped(x(0), n)[0])


def test_tensors_of_numbers_and_prints_run_eagerly(capfd):
    fn = mica.compile(lambda a, value: makes(a, value))
    for value in (1.0, 2.0, 3.0, 3.0):
        same(fn(x(0), value), makes(x(0), value))
    fn = mica.compile(lambda a: prints(a) * 2)
    capfd.readouterr()
    for _ in range(3):
        fn(x(0))
    assert capfd.readouterr().out.count("hello") == 3


class Doubled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a):
        return a * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.once("torch leaks a reference of None a call")
def test_a_function_of_autograd_under_vmap():
    def f(a):
        return torch.vmap(Doubled.apply)(a) + 1

    fn = mica.compile(f)
    for (a,) in CALLS:
        same(fn(a), f(a))


def test_a_higher_order_operator():
    def f(a):
        return torch.ops.higher_order.cond(
            True, lambda b: b * 2, lambda b: b - 1, (a,)
        )

    fn = mica.compile(f)
    for (a,) in CALLS:
        result, _ = call_and_tell(fn, a)
        same(result, f(a))
    assert report(fn).name
