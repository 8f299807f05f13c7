"""torch.func's transforms inside of programs."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from e2e.capture.agreement_of_calls import report, same, x
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils._pytree import tree_leaves

import mica


@pytest.fixture(autouse=True)
def _grad(_no_grad: None) -> Iterator[None]:
    with torch.enable_grad():
        yield


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


NET = net()
WEIGHTS = {name: p.detach() for name, p in NET.named_parameters()}
EMPTY = copy.deepcopy(NET).to("meta")
ENSEMBLE = [net(seed) for seed in range(3)]


def loss_of(weights: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(functional_call(NET, weights, (a,)), b)


def rows(a: torch.Tensor) -> Any:
    return vmap(lambda row: (row * 2).sum() + row.max())(a)


def rows_of_rows(a: torch.Tensor) -> Any:
    return vmap(vmap(lambda u: u * 2 + 1))(a)


def columns(a: torch.Tensor) -> Any:
    return vmap(lambda u, v: u @ v, in_dims=(1, None))(a, a[:, 0])


def slope(a: torch.Tensor) -> Any:
    return grad(lambda b: (b**3).sum())(a)


def slope_and_value(a: torch.Tensor) -> Any:
    return grad_and_value(lambda w: loss_of(w, a, a))(WEIGHTS)


def slopes_of_samples(a: torch.Tensor) -> Any:
    return vmap(grad(loss_of), in_dims=(None, 0, 0))(WEIGHTS, a, a * 2)


def jacobian(a: torch.Tensor) -> Any:
    return jacrev(torch.sin)(a[0]), jacfwd(lambda b: b * b.sum())(a[0])


def curvature(a: torch.Tensor) -> Any:
    return hessian(lambda b: (b**3).sum() + b.prod())(a[0])


def pulled_back(a: torch.Tensor) -> Any:
    value, pull = vjp(torch.sin, a)
    return value, pull(a + 1)[0]


def pushed(a: torch.Tensor) -> Any:
    return jvp(torch.sin, (a,), (a + 1,))


def curvature_times(a: torch.Tensor) -> Any:
    return jvp(grad(lambda b: (b**4).sum()), (a,), (a + 1,))[1]


def with_other_weights(a: torch.Tensor) -> Any:
    return functional_call(NET, {k: v * 2 for k, v in WEIGHTS.items()}, (a,))


def different_noise(a: torch.Tensor) -> Any:
    noisy = vmap(lambda row: row + torch.rand(4), randomness="different")
    return noisy(a) + vmap(lambda row: row + torch.rand(4), randomness="same")(
        a
    )


def ensemble(a: torch.Tensor) -> Any:
    with torch.no_grad():
        weights, buffers = stack_module_state(ENSEMBLE)
        return vmap(
            lambda p, b: functional_call(EMPTY, (p, b), (a,)), in_dims=(0, 0)
        )(weights, buffers)


SERVED: list[Any] = [
    rows,
    rows_of_rows,
    columns,
    slope,
    slope_and_value,
    slopes_of_samples,
    jacobian,
    pulled_back,
    pushed,
    with_other_weights,
    different_noise,
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("program", SERVED, ids=lambda f: f.__name__)
def test_a_transform_is_served(
    program: Callable[..., Any], exact: bool
) -> None:
    def run(call: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        return [
            part
            for seed in range(5)
            for part in (call(x(seed, 3, 4)), torch.get_rng_state())
        ]

    want = run(program)  # Sets torch's own modules up.
    compiled = mica.compile(program, exact=exact)
    same(run(compiled), want)
    assert report(compiled).hits == 4, report(compiled).details()


def test_results_of_a_transform_are_gone_back_from() -> None:
    model = net()
    compiled = mica.compile(lambda a: vmap(model)(a).tanh())
    for seed in range(4):
        found = []
        for call in (compiled, lambda a: vmap(model)(a).tanh()):
            model.zero_grad()
            call(x(seed, 3, 4)).square().sum().backward()
            found.append([p.grad for p in model.parameters()])
        same(*found)
    assert report(compiled).hits == 3, report(compiled).details()


@pytest.mark.parametrize("program", [curvature, curvature_times])
def test_forward_over_reverse_is_eagers(program: Callable[..., Any]) -> None:
    compiled = mica.compile(program)
    for seed in range(4):
        same(compiled(x(seed, 3, 4)), program(x(seed, 3, 4)))


def test_an_ensemble_is_eagers() -> None:
    compiled = mica.compile(ensemble)
    for seed in range(5):
        same(compiled(x(seed, 3, 4)), ensemble(x(seed, 3, 4)))


def test_state_that_a_transformed_function_reads_is_guarded() -> None:
    scale = [2.0]
    compiled = mica.compile(lambda a: grad(lambda b: (b * scale[0]).sum())(a))
    for value in (2.0, 2.0, 3.0, 3.0, 2.0):
        scale[0] = value
        same(compiled(x(0, 4)), torch.full((4,), value))


def test_a_call_under_a_transform_is_eagers() -> None:
    def program(a: torch.Tensor) -> torch.Tensor:
        return (a.sin() * 2).sum()

    compiled = mica.compile(program)
    for seed in range(4):
        same(grad(compiled)(x(seed, 4)), grad(program)(x(seed, 4)))
        same(vmap(compiled)(x(seed, 3, 4)), vmap(program)(x(seed, 3, 4)))
        same(compiled(x(seed, 4)), program(x(seed, 4)))


def test_a_tensor_that_outlives_its_level_is_no_graph() -> None:
    kept: list[torch.Tensor] = []

    def program(a: torch.Tensor) -> Any:
        def inner(b: torch.Tensor) -> torch.Tensor:
            kept[:] = [b * 2]
            return b.sum()

        return grad(inner)(a), kept[0] + 1

    compiled = mica.compile(program)
    for seed in range(4):
        same(compiled(x(seed, 4)), program(x(seed, 4)))


def test_an_array_becomes_a_tensor_below_a_transform():
    array = np.array([1.0, 2.0, 3.0], "f")

    def program(x):
        return torch.func.grad(lambda v: (v * torch.from_numpy(array)).sum())(x)

    compiled = mica.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), program(torch.ones(3)))
        array += 1


def test_an_array_of_a_tensor_below_a_transform_is_eager_s_error():
    def program(x):
        return torch.func.grad(lambda v: v.sum() + v.detach().numpy().sum())(x)

    compiled = mica.compile(program)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="data pointer"):
            compiled(torch.ones(3))


C = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))


def _scalar(a: torch.Tensor) -> torch.Tensor:
    return (a.exp() * a.sin() * C).sum()


def _dual(a: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, torch.ones_like(a))
        return forward_ad.unpack_dual(dual * C + C)[1]


# In forward mode a constant's tangent is a ZeroTensor, which has no memory.
TANGENTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "of a gradient": lambda a: jvp(grad(_scalar), (a,), (torch.ones_like(a),)),
    "hessian": lambda a: hessian(_scalar)(a),
    "jacfwd": lambda a: jacfwd(lambda b: (b * C).sum(0))(a),
    "dual level": _dual,
    "addmm": lambda a: jvp(lambda b: torch.addmm(C, b, C), (a,), (a,)),
    "clamp": lambda a: jvp(lambda b: b.clamp(C), (a,), (a,)),
    "where": lambda a: jvp(lambda b: torch.where(b > 0.2, b, C), (a,), (a,)),
    "linear": lambda a: jvp(lambda b: F.linear(b, C, C[0]), (a,), (a,)),
    "convolution": lambda a: jvp(
        lambda b: torch.conv1d(b[None], C[None]), (a,), (a,)
    ),
    "a constant": lambda a: jvp(lambda b: C * 2, (a,), (a,)),
    "infinity": lambda a: jvp(lambda b: b * (C / 0), (a,), (a,)),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_tangents_of_constants_are_part_of_the_graph(name):
    program = TANGENTS[name]
    fast: Any = mica.compile(program)
    for i in range(4):
        a = torch.rand(3, 3, generator=torch.Generator().manual_seed(i))
        want, got = (tree_leaves(f(a)) for f in (program, fast))
        for one, other in zip(want, got, strict=True):
            assert one._is_zerotensor() == other._is_zerotensor()
            assert torch.allclose(one, other, equal_nan=True)
    assert mica.explain(fast).hits == 3


def test_the_first_vmap_of_a_process_is_one_graph():
    program = """
import torch, mica
fast = mica.compile(torch.func.vmap(lambda a: a * 2))
for _ in range(5):
    fast(torch.ones(3, 2))
print(mica.explain(fast).hits)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) >= 2, done.stderr


ZERO = torch._efficientzerotensor((3, 3))

FOUND: dict[str, Callable[[torch.Tensor], Any]] = {
    "added": lambda a: a + ZERO,
    "viewed": lambda a: a + ZERO.view(9).sum(),
    "copied": lambda a: a + ZERO.t().expand(3, 3).contiguous(),
    "detached": lambda a: a + ZERO.detach().clone(),
}


@pytest.mark.parametrize("name", FOUND)
def test_zeros_without_memory_that_a_program_found(name):
    program = FOUND[name]
    fast: Any = mica.compile(program)
    given: Any = mica.compile(lambda a, b: a * b.t())
    for i in range(4):
        a = torch.full((3, 3), float(i))
        assert torch.equal(program(a), fast(a))
        assert torch.equal(a * ZERO.t(), given(a, ZERO))
