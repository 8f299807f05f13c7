"""`exact`: eager's numbers, bit for bit."""

from __future__ import annotations

import copy

import pytest
import torch
from e2e.training import Step, make_step
from torch import nn

import mica


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Conv2d(16, 16, 3, stride=2),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
        nn.LayerNorm(10),
        nn.Softmax(-1),
    )


@pytest.mark.parametrize("training", [False, True])
def test_results_are_eagers(training: bool) -> None:
    mine = _net().train(training)
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine, exact=True)
    with torch.no_grad():
        for seed in range(4):
            a = torch.randn(
                2, 3, 9, 9, generator=torch.Generator().manual_seed(seed)
            )
            assert torch.equal(compiled(a), plain(a))
        for name, state in mine.state_dict().items():
            assert torch.equal(state, plain.state_dict()[name]), name
    told = mica.explain(compiled)
    assert told.is_one_graph and told.hits == 3
    assert sum(told.graphs[0].opaque.values()) > 5


def test_a_training_step_is_eagers() -> None:
    mine, plain = _net(), _net()

    def make(net: nn.Module) -> Step:
        return make_step(
            torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
            lambda a, labels: nn.functional.cross_entropy(net(a), labels),
        )

    compiled = mica.compile(make(mine), exact=True)
    eager = make(plain)
    for seed in range(5):
        torch.manual_seed(seed)
        a, labels = torch.randn(4, 3, 9, 9), torch.randint(10, (4,))
        assert torch.equal(compiled(a, labels), eager(a, labels))
    for name, state in mine.state_dict().items():
        assert torch.equal(state, plain.state_dict()[name]), name
    assert mica.explain(compiled).hits >= 2


def test_norms_that_learn_and_frozen_ones_are_one_graph() -> None:
    """Only the former write their statistics, which ATen's schema conceals."""
    torch.manual_seed(0)
    mine = nn.Sequential(
        nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    )
    mine.train()[2].eval()
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine, exact=True, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 3, 8, 8)
            assert torch.equal(compiled(x), plain(x))
    for key, value in plain.state_dict().items():
        assert torch.equal(mine.state_dict()[key], value), key
    assert mica.explain(compiled).hits == 2


_PARTS = {
    "columns": lambda base, width: base[:, :width],
    "columns in between": lambda base, width: base[:, width : 2 * width],
    "every other column": lambda base, width: base[:, : 2 * width : 2],
    "rows of columns": lambda base, width: base.t()[:width],
    "a block": lambda base, width: base.view(4, 3, -1)[:, 1:, :width],
}
_WRITES = {
    "sigmoid_": torch.Tensor.sigmoid_,
    "exp_": torch.Tensor.exp_,
    "tanh_": torch.Tensor.tanh_,
    "out=": lambda part: torch.sin(part.clone(), out=part),
    "_foreach_": lambda part: torch._foreach_sigmoid_([part, part.detach()]),
}


# Which elements ATen's loops take as vectors depends on the strides of what is
# written, and the last bits on that.
@pytest.mark.parametrize("write", _WRITES)
@pytest.mark.parametrize("part", _PARTS)
def test_writes_to_parts_of_a_tensor_are_eagers(part: str, write: str) -> None:
    def step(base: torch.Tensor, width: int) -> torch.Tensor:
        made = base * 2
        _WRITES[write](_PARTS[part](made, width))
        return made

    for width in (1, 7, 8, 9, 16, 24):
        compiled = mica.compile(step, exact=True)
        for seed in range(4):
            torch.manual_seed(seed)
            base = torch.randn(12, 64)
            assert torch.equal(compiled(base, width), step(base, width))
        assert mica.explain(compiled).hits == 3


# What regions compute by rules of their own, though no operator of Mica's has
# the name: functions in one Program, what their gradients call in another.
_FUNCTIONS = {
    "acosh": lambda a: torch.acosh(1 + a * a),
    "celu": nn.functional.celu,
    "cumprod": lambda a: a.cumprod(0),
    "deg2rad": torch.deg2rad,
    "digamma": lambda a: torch.digamma(a.abs() + 0.01),
    "digamma below 0": torch.digamma,
    "entr": lambda a: torch.special.entr(a.abs()),
    "erfcx": torch.special.erfcx,
    "erfinv": lambda a: torch.erfinv(torch.sin(a)),
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "heaviside": lambda a: torch.heaviside(a.detach(), a.detach().cos()),
    "hypot": lambda a: torch.hypot(a, a + 1),
    "lgamma": torch.lgamma,
    "log_sigmoid": nn.functional.logsigmoid,
    "logaddexp": lambda a: torch.logaddexp(a, 2 * a),
    "logit": lambda a: torch.logit(torch.sigmoid(a)),
    "mish": nn.functional.mish,
    "mvlgamma": lambda a: torch.mvlgamma(a.abs() + 3, 2),
    "polygamma": lambda a: torch.polygamma(1, a.abs() + 0.1),
    "rad2deg": torch.rad2deg,
    "remainder": lambda a: torch.remainder(a, 1.3),
    "selu": nn.functional.selu,
    "sinc": torch.sinc,
    "softplus": nn.functional.softplus,
    "xlogy": lambda a: torch.xlogy(a, a.abs() + 0.1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_and_their_gradients_are_eagers(
    name: str, dtype: torch.dtype
) -> None:
    def step(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = a.clone().requires_grad_()
        result = _FUNCTIONS[name](a)
        if not result.requires_grad:
            return result, a.detach()
        weights = torch.arange(1.0, 65.0, dtype=dtype)
        (gradient,) = torch.autograd.grad((result * weights).sum(), a)
        return result.detach(), gradient

    compiled = mica.compile(step, exact=True)
    for seed in range(3):
        torch.manual_seed(seed)
        a = 5 * torch.randn(64, dtype=dtype)
        for got, want in zip(compiled(a), step(a), strict=True):
            torch.testing.assert_close(
                got, want, rtol=0, atol=0, equal_nan=True
            )
    told = mica.explain(compiled)
    assert told.hits == 2
    assert not [op for op in told.graphs[0].ops if op == "mica.elementwise"]
