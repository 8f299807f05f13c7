"""Repeated layers share what was decided, and nothing else."""

import copy
import random
from collections.abc import Callable

import pytest
import torch
from torch import nn

import mica

WIDTH, ROWS, DEPTH = 16, 6, 5


class Layer(nn.Module):
    """Ten ops or so, with a buffer and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, 2 * WIDTH)
        self.norm = nn.BatchNorm1d(2 * WIDTH)
        self.outer = nn.Linear(2 * WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.9))
        self.drop = nn.Dropout(0.25)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.norm(self.inner(x)))
        h = self.drop(torch.sigmoid(self.outer(h)) * self.scale)
        return torch.softmax(h, -1) + x


def shared_parameter(net):
    net[3].inner.weight = net[1].inner.weight


def shared_buffer(net):
    net[3].norm.running_mean = net[1].norm.running_mean


def shared_layer(net):
    for i in (1, 2, 3):
        net[i] = net[0]


def hook(net):
    net[2].outer.weight.register_hook(lambda grad: grad * 2)


def frozen_layer(net):
    net[2].requires_grad_(False)


def other_dtype(net):
    net[2].scale = nn.Parameter(net[2].scale.detach().float())


def other_mode(net):
    net[2].eval()


def other_number(net):
    net[2].drop.p = 0.5


def other_activation(net):
    net[2].norm = nn.Identity()


def no_change(net):
    pass


CHANGES = [
    no_change,
    shared_parameter,
    shared_buffer,
    shared_layer,
    hook,
    frozen_layer,
    other_dtype,
    other_mode,
    other_number,
    other_activation,
]

OPTIMIZERS: dict[str, Callable] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01),
}


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_net(change):
    torch.manual_seed(3)
    net = nn.Sequential(*[Layer() for _ in range(DEPTH)])
    change(net)
    return net


def step_of(net, optimizer):
    def step(x, y):
        loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def functions_of(compiled):
    return [
        found
        for graph in mica.explain(compiled).graphs
        for found in graph.functions
    ]


def expect_same_state(net, twin):
    for (name, got), want in zip(
        net.state_dict().items(), twin.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7, msg=name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_layers_train_as_in_eager(change, optimizer):
    # Deep copies have no hooks.
    net, twin = make_net(change), make_net(change)
    make = OPTIMIZERS[optimizer]
    compiled = mica.compile(step_of(net, make(net.parameters())))
    eager = step_of(twin, make(twin.parameters()))
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(ROWS, WIDTH, generator=generator)
        y = torch.randn(ROWS, WIDTH, generator=generator)
        state = torch.get_rng_state()
        got = compiled(x, y)
        drawn = torch.get_rng_state()
        torch.set_rng_state(state)
        torch.testing.assert_close(got, eager(x, y), rtol=1e-9, atol=1e-12)
        assert torch.equal(drawn, torch.get_rng_state())
        expect_same_state(net, twin)
    if change is hook:  # Runs in pieces, around the hook.
        return
    assert mica.explain(compiled).hits >= 2
    assert functions_of(compiled), "nothing was found to be repeated"


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_layers_compute_as_in_eager(change, frozen):
    net = make_net(change).eval()
    compiled = mica.compile(net, frozen=frozen)
    with torch.no_grad():
        for seed in range(3):
            x = torch.randn(
                ROWS, WIDTH, generator=torch.Generator().manual_seed(seed)
            )
            torch.testing.assert_close(
                compiled(x), net(x), rtol=1e-9, atol=1e-12
            )
    assert mica.explain(compiled).hits == 2
    # Without its norm the middle layer parts two runs of two.
    if change is not other_activation:
        assert functions_of(compiled)


def test_equal_layers_are_one_function():
    net = make_net(no_change).eval()
    compiled = mica.compile(net)
    with torch.no_grad():
        for _ in range(2):
            compiled(torch.randn(ROWS, WIDTH))
    [(_, ops, calls)] = functions_of(compiled)
    assert calls == DEPTH
    explanation = mica.explain(compiled)
    assert f"{ops * calls} in repeated layers" in str(explanation)
    assert f"{ops} ops, {calls}x" in explanation.details("ops")


KINDS = ("linear", "norm", "gelu", "sum", "gate", "halves", "soft", "drop")


class Drawn(nn.Module):
    """A layer of drawn parts."""

    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds
        sizes = {"linear": WIDTH, "sum": WIDTH, "gate": WIDTH}
        self.parts = nn.ModuleList(
            nn.LayerNorm(WIDTH)
            if kind == "norm"
            else nn.Linear(WIDTH, sizes.get(kind, 2 * WIDTH))
            for kind in kinds
        )

    def forward(self, x):
        for kind, part in zip(self.kinds, self.parts, strict=True):
            if kind in ("linear", "norm"):
                x = part(x)
            elif kind == "gelu":
                x = nn.functional.gelu(x)
            elif kind == "sum":
                x = x + part(x)
            elif kind == "gate":
                x = x * torch.sigmoid(part(x))
            elif kind == "halves":
                x = nn.functional.glu(part(x))
            elif kind == "soft":
                x = torch.softmax(x, -1) * 3
            else:
                x = nn.functional.dropout(x, 0.2)
        return x


@pytest.mark.parametrize("seed", range(12))
def test_drawn_layers_train_as_in_eager(seed):
    drawn = random.Random(seed)
    kinds = [drawn.choice(KINDS) for _ in range(drawn.randint(4, 8))]
    torch.manual_seed(seed)
    net = nn.Sequential(*[Drawn(kinds) for _ in range(drawn.randint(3, 6))])
    twin = copy.deepcopy(net)

    def parameters(of):
        return torch.optim.SGD(of.parameters(), 0.05, momentum=0.9)

    compiled = mica.compile(step_of(net, parameters(net)))
    eager = step_of(twin, parameters(twin))
    for turn in range(4):
        torch.manual_seed(turn)
        x, y = torch.randn(2, ROWS, WIDTH)
        state = torch.get_rng_state()
        got = compiled(x, y)
        torch.set_rng_state(state)
        torch.testing.assert_close(got, eager(x, y), rtol=1e-9, atol=1e-12)
        expect_same_state(net, twin)
    assert mica.explain(compiled).hits >= 1
