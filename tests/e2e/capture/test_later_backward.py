"""Compiled callables whose results require grad: who goes back comes later.

Each is held against an eager twin, bit for bit: results, gradients, parameters
after steps of an optimizer.
"""

import copy
import random

import pytest
import torch
from e2e.capture.later_passes import (
    Heads,
    States,
    grad_is_on,
    gradients_of,
    mlp,
    same,
    served_twice,
    square,
)
from torch import nn
from torch.nn import functional

import mica

CALLS = 6


_grad = pytest.fixture(autouse=True)(grad_is_on)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 16)

    def forward(self, x):
        return self.table(x) @ self.table.weight.t()


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.last = None

    def forward(self, x):
        self.last = torch.tanh(self.layer(x))
        return self.last * 2


class HalfDetached(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x.detach()) + x[:, :1]


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.relu(self.layer(x)).float()


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, x):
        return self.head(self.layer(self.table(x)))


def floats(*sizes, requires_grad=False):
    return lambda: torch.randn(*sizes, requires_grad=requires_grad)


def words(*sizes):
    return lambda: torch.randint(0, 20, sizes)


def conv():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 4),
    )


def of_first(y):
    return y["first"].square().mean()


def of_others(y):
    return y["second"].square().sum() + y["h"].sum()


def of_states(y):
    return y[0].sum() + y[1][0].square().sum()


CASES = {
    "mlp": (mlp, floats(5, 8), square),
    "argument": (mlp, floats(5, 8, requires_grad=True), square),
    "norms": (conv, floats(4, 3, 8, 8), square),
    "text": (Text, words(2, 7), square),
    "lstm": (
        lambda: nn.LSTM(8, 16, 2),
        floats(5, 2, 8),
        lambda y: square(y[0]),
    ),
    "one of three": (Heads, floats(5, 8), of_first),
    "two of three": (Heads, floats(5, 8), of_others),
    "states": (States, floats(2, 3, 8), of_states),
    "tied": (Tied, words(2, 5), square),
    "kept in the module": (Keeps, floats(2, 8), square),
    "half detached": (HalfDetached, floats(2, 8, requires_grad=True), square),
    "autocast": (Mixed, floats(2, 8), square),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loop_around_a_compiled_model_trains_as_eager_does(name):
    build, make, loss_of = CASES[name]
    torch.manual_seed(0)
    eager = build()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True, fullgraph=True)
    optimizers = [
        torch.optim.Adam(m.parameters(), lr=0.01) for m in (eager, served)
    ]
    for call in range(CALLS):
        torch.manual_seed(call)
        x = make()
        kept = []
        for model, run, optimizer in zip(
            (eager, served), (eager, compiled), optimizers, strict=True
        ):
            torch.manual_seed(100 + call)
            mine = x.clone().detach().requires_grad_(x.requires_grad)
            loss = loss_of(run(mine))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(
                [loss.detach(), mine.grad, torch.rand(())]
                + gradients_of(model)
                + list(model.state_dict().values())
            )
        same(*kept)
    explanation = mica.explain(compiled)
    assert explanation.is_one_graph, str(explanation)
    assert (len(explanation.graphs), explanation.hits) == (1, CALLS - 1)
    assert explanation.graphs[0].backward_ops
    assert "backward pass:" in str(explanation)


def test_a_cell_is_called_along_a_sequence():
    torch.manual_seed(0)
    eager = nn.GRUCell(4, 8)
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    sequence = torch.randn(4, 3, 4)
    for _ in range(4):
        kept = []
        for model, run in ((eager, eager), (served, compiled)):
            h = torch.zeros(3, 8)
            for x in sequence:
                h = run(x, h)
            model.zero_grad()
            h.square().sum().backward()
            kept.append(gradients_of(model))
        same(*kept)
    explanation = mica.explain(compiled)
    # A first state that needs no gradient, and further ones that do.
    assert (len(explanation.graphs), explanation.hits) == (2, 14)


def test_several_runs_wait_for_their_backward_passes():
    torch.manual_seed(0)
    eager = mlp().eval()
    served = copy.deepcopy(eager)
    compiled = served_twice(mica.compile(served, exact=True), torch.randn(5, 8))
    a, b = torch.randn(5, 8), torch.randn(5, 8)
    for model, run in ((eager, eager), (served, compiled)):
        model.zero_grad()
        first, second = run(a), run(b)
        second.sum().backward()
        first.square().sum().backward()
    same(gradients_of(eager), gradients_of(served))


def test_gradients_add_up_and_go_to_hooks():
    eager = nn.Linear(4, 4)
    served = copy.deepcopy(eager)
    compiled = served_twice(mica.compile(served, exact=True), torch.ones(2, 4))
    seen = [], []
    for mine, model, run in zip(
        seen, (eager, served), (eager, compiled), strict=True
    ):
        hooks = [
            model.weight.register_hook(lambda g: g * 2),
            model.weight.register_post_accumulate_grad_hook(
                lambda p, mine=mine: mine.append(p.grad.clone())
            ),
        ]
        for _ in range(3):
            run(torch.ones(2, 4)).square().sum().backward()
        for hook in hooks:
            hook.remove()
    same(gradients_of(eager), gradients_of(served))
    same(*seen)
    assert len(seen[0]) == 3


def test_grad_of_some_and_strides_of_a_gradient():
    def f(x, w):
        return torch.relu(x @ w) * 2

    compiled = mica.compile(f, exact=True)
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=True)
    w = torch.randn(4, 5, requires_grad=True)
    served_twice(compiled, x, w)
    for gradient in (
        torch.randn(3, 5),
        torch.randn(5, 3).t(),
        torch.randn(3, 1).expand(3, 5),
    ):
        same(
            torch.autograd.grad(f(x, w), w, gradient),
            torch.autograd.grad(compiled(x, w), w, gradient),
        )
    (got,) = torch.autograd.grad(compiled(x, w).sum(), x)
    same([torch.autograd.grad(f(x, w).sum(), x)[0]], [got])


def test_a_leaf_that_nothing_used_is_made_of_gets_no_gradient():
    model = Heads()
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(2, 8))
    compiled(torch.ones(2, 8))["second"].sum().backward()
    assert model.first.weight.grad is None
    assert model.body.weight.grad is not None


STEEP = {
    "apart": lambda x: (x * 2, x.sqrt()),
    "one of the other": lambda x: ((y := x.sqrt() * 2), y * torch.tanh(y)),
    "joined below": lambda x: ((y := x + 0).t() * y.t(), y.sqrt()),
}


@pytest.mark.parametrize("name", STEEP)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16]
)
@pytest.mark.parametrize("number", [1, -0.0, torch.inf, torch.nan])
def test_an_infinity_behind_an_unused_result_is_eagers(name, dtype, number):
    f = STEEP[name]
    compiled = mica.compile(f, exact=True)
    served_twice(compiled, torch.ones(5, 1, dtype=dtype, requires_grad=True))
    for used in (0, 1, slice(None)):
        kept = []
        for run in (f, compiled):
            x = torch.ones(5, 1, dtype=dtype)
            x[2] = 0  # The root's slope is infinite.
            x[3] = -1  # The root is no number.
            x.requires_grad_()
            result = run(x)[used]
            parts = result if isinstance(result, tuple) else (result,)
            slopes = [torch.full_like(part, number) for part in parts]
            torch.autograd.backward(parts, slopes)
            kept.append([x.grad.nan_to_num(7), x.grad.signbit()])
        same(*kept)
    assert mica.explain(compiled).hits == 4


@pytest.mark.parametrize("scale", [torch.inf, torch.nan])
def test_an_overflow_of_what_is_used_is_eagers(scale):
    torch.manual_seed(0)
    eager = Heads()
    served = copy.deepcopy(eager)
    compiled = served_twice(mica.compile(served, exact=True), torch.ones(2, 8))
    for model, run in ((eager, eager), (served, compiled)):
        y = run(torch.full((2, 8), 3.0))
        (y["first"].exp().sum() * scale).backward()
        assert not model.body.weight.grad.isfinite().all()
    for a, b in zip(gradients_of(eager), gradients_of(served), strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a.nan_to_num(), b.nan_to_num())
        assert a is None or torch.equal(a.isnan(), b.isnan())


def test_a_backward_pass_under_autocast_has_eagers_precision():
    torch.manual_seed(0)
    eager = mlp().eval()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for _ in range(4):
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            loss = run(torch.ones(5, 8)).square().sum()
            with torch.autocast("cpu", torch.bfloat16):
                loss.backward()
        same(gradients_of(eager), gradients_of(served))
    assert "under autocast" in str(mica.explain(compiled).refusals[0])


def test_a_run_and_its_backward_pass_under_one_autocast():
    torch.manual_seed(0)
    eager = mlp().eval()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for _ in range(4):
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                run(torch.ones(5, 8)).square().sum().backward()
        same(gradients_of(eager), gradients_of(served))
    assert mica.explain(compiled).hits == 3


def test_norms_of_two_runs_before_one_backward_pass():
    torch.manual_seed(0)
    eager = conv()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for call in range(4):
        torch.manual_seed(call)
        a, b = torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8)
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            first, second = run(a), run(b)
            (first.sum() + second.square().sum()).backward()
        same(gradients_of(eager), gradients_of(served))
        same(
            list(eager.state_dict().values()),
            list(served.state_dict().values()),
        )
    assert mica.explain(compiled).hits == 7


class Scaled(nn.Module):
    """Scales by a number that is another at each call."""

    def __init__(self, draw):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = 1.0
        self.draw = draw

    def forward(self, x):
        return self.layer(x) * (self.draw() if self.draw else self.scale)


@pytest.mark.parametrize("draw", [None, random.random])
def test_numbers_that_vary_are_those_of_the_run(draw):
    torch.manual_seed(0)
    eager = Scaled(draw)
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for call in range(8):
        for model, run in ((eager, eager), (served, compiled)):
            random.seed(call)
            model.scale = 1 + call / 2
            model.zero_grad()
            first = run(torch.ones(2, 4))
            model.scale = 10.0
            run(torch.full((2, 4), 0.5)).sum().backward()
            first.sum().backward()
        same(gradients_of(eager), gradients_of(served))
    explanation = mica.explain(compiled)
    assert explanation.hits >= 12, str(explanation)
    # An attribute is a constant until it varies.
    assert len(explanation.graphs) == (1 if draw else 2)


def test_pieces_pass_gradients_on():
    seen = []

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = nn.Linear(8, 4)

        def forward(self, x):
            h = torch.tanh(self.first(x))
            note(h)
            return self.second(h)

    @mica.disable
    def note(h):
        seen.append(float(h.detach().sum()))

    torch.manual_seed(0)
    eager = Cut()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for call in range(6):
        torch.manual_seed(call)
        x = torch.randn(3, 8)
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            run(x).square().sum().backward()
        same(gradients_of(eager), gradients_of(served))
    explanation = mica.explain(compiled)
    assert explanation.last_graphs == 2, str(explanation)
    assert seen[0::2] == seen[1::2]


def test_a_loss_outside_of_the_model():
    torch.manual_seed(0)
    eager = Text()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served)  # With kernels of Mica's own.
    for call in range(4):
        torch.manual_seed(call)
        x, y = torch.randint(0, 20, (2, 7)), torch.randint(0, 20, (2, 7))
        for model, run in ((eager, eager), (served, compiled)):
            model.eval()
            model.zero_grad()
            out = run(x)
            functional.cross_entropy(out.flatten(0, 1), y.flatten()).backward()
        for a, b in zip(gradients_of(eager), gradients_of(served), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert mica.explain(compiled).hits == 3


def test_check_compares_a_hit_with_eager():
    model = mlp().eval()
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(5, 8))
    with mica.stance("check"):
        compiled(torch.ones(5, 8)).sum().backward()
    assert model[0].weight.grad is not None


EXTREMES = {
    "scaled": lambda x: x / x.abs().max(),
    "between": lambda x: (x - x.min()) / (x.max() - x.min()),
    "of rows": lambda x: x / x.amax(1, keepdim=True) + x.max(),
    "twice": lambda x: (x / x.max()).square() / x.min(),
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", EXTREMES)
def test_a_full_max_is_gone_back_from_without_a_read(name, exact):
    f = EXTREMES[name]
    compiled = mica.compile(f, exact=exact)
    served_twice(compiled, torch.ones(3, 4, requires_grad=True))
    tied = torch.tensor([[1.0, 2, 2, -2], [0.5, -2, 1, 2], [1, 1, 1, 1]])
    missing = tied.clone()
    missing[0, 1] = missing[2, 2] = torch.nan
    for data in (tied, missing, torch.randn(3, 4)):
        kept = []
        for run in (f, compiled):
            x = data.clone().requires_grad_()
            (run(x) * torch.arange(12.0).view(3, 4)).sum().backward()
            kept.append(x.grad)
        tolerance = 0 if exact else 1e-5
        torch.testing.assert_close(
            *kept, rtol=tolerance, atol=tolerance, equal_nan=True
        )
    assert mica.explain(compiled).hits == 4


def turned(y):
    return (y.transpose(1, 2) * torch.arange(1.0, 7)).sum()


@pytest.mark.parametrize("losses", [(turned,), (square,), (turned, square)])
def test_exact_gradients_are_eagers_however_they_are_laid_out(losses):
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Conv1d(5, 6, 3), nn.BatchNorm1d(6))
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for call in range(8):
        loss = losses[call // 4 % len(losses)]
        x = torch.randn(33, 5, 19)
        kept = []
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            loss(run(x)).backward()
            kept.append(gradients_of(model))
        # Whoever changes it in the midst of hits has one copy.
        if call != 4 or len(losses) == 1:
            same(*kept)
    assert mica.explain(compiled).hits >= 4, str(mica.explain(compiled))
