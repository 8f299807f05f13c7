"""One graph for many sizes: what two watched runs tell of others."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mica

r = torch.randn


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:
        return type(error).__name__


def same(got, want):
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
    elif isinstance(want, torch.Tensor):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    else:
        assert got == want


def check(fn, *calls, hits=None):
    """Compares calls with eager's; `hits` of them are served at least."""
    compiled = mica.compile(fn)
    for args in calls:
        copies = [a.clone() for a in args]
        same(outcome(compiled, *args), outcome(fn, *copies))
        for arg, copy in zip(args, copies, strict=True):
            same(arg, copy)
    told = mica.explain(compiled)
    if hits is not None:
        assert told.hits >= hits, str(told)
    return told


def rows(*sizes):
    return [(r(size, 6),) for size in sizes]


# ---- programs that are one graph ----

ONE_GRAPH = {
    "elementwise": lambda x: x.relu() * 2 + 1,
    "shape": lambda x: x.reshape(x.shape[0] * 2, -1).sum(1),
    "unpacked": lambda x: (lambda b, h: x.view(b, 2, h // 2).sum(1))(*x.shape),
    "size()": lambda x: x.expand(3, x.size(0), x.size(-1)).sum(0),
    "len()": lambda x: x.sum(0) / len(x),
    "numel()": lambda x: x.sum() / x.numel(),
    "a part of a shape": lambda x: x.view(*x.shape[:1], 2, 3).sum(2),
    "arithmetic": lambda x: x[: (x.shape[0] + 1) // 2] * math.sqrt(len(x)),
    "made tensors": lambda x: torch.arange(len(x))[:, None] + x,
    "zeros": lambda x: torch.zeros(x.shape[0], 2).sum(1) + x.mean(),
    "tensor() of sizes": lambda x: x * torch.tensor([len(x), 2]).sum(),
    "a scalar": lambda x: x * x.shape[0] - len(x),
    "masks": lambda x: (x @ x.T).masked_fill(
        torch.ones(len(x), len(x)).tril() == 0, 0.0
    ),
    "means": lambda x: x.mean(0) + x.var(0),
    "softmax": lambda x: torch.softmax(x @ x.T, -1) @ x,
    "padding": lambda x: F.pad(x, (0, 0, 0, 16 - x.shape[0])),
    "chunk": lambda x: torch.cat(x.chunk(2)[::-1]),
    "diff": lambda x: torch.diff(x, dim=0),
    "slices": lambda x: x[1:] - x[:-1],
    "a slice of all": lambda x: x[: x.shape[0]] * 2,
    "roll": lambda x: x.roll(len(x) // 2, 0),
    "sizes and None": lambda x: x.view(
        [(s if s != None else -1) for s in list(x.shape)]  # noqa: E711
    ).sum(0),
    "compared lists": lambda x: x * 2 if list(x.shape) == [len(x), 6] else x,
    "diag": lambda x: (x @ x.T).diag() + x.sum(1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(
        x.view(1, -1, 6, 1).repeat(1, 4, 1, 1), 2
    ),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0).arctan(),
    "compared shapes": lambda x: F.mse_loss(x, torch.zeros_like(x)),
    "a branch": lambda x: x * 2 if x.shape[0] < 100 else x,
    "an assertion's text": lambda x: (
        torch._assert(x.dim() == 2, f"got {x.shape}"),
        x + 1,
    )[1],
    "__len__()": lambda x: x * 2 if x.shape.__len__() == 2 else x,
    "transforms": lambda x: torch.fft.rfft(x, dim=1, norm="ortho").abs(),
    "inner sizes": lambda x: (lambda y: y.sum(1) / y.shape[1])(x.T),
    "matrices": lambda x: (
        torch.linalg.inv(x.T @ x + 9 * torch.eye(6)).sum()
        + torch.linalg.eigvalsh(x.T @ x).sum()
        + x.T.matmul(x).add(torch.eye(6)).logdet()
    ),
    "a number before a tensor": lambda x: sum([x, x * 2]),
    "sizes before a tensor": lambda x: (
        x.shape[0] / (x + 9),
        x.shape[0] - x,
        (x.shape[0] * 2) ** (x / 9),
        x.shape[0] // (x + 9),
        float(x.shape[0]) % (x + 9),
    ),
    "new()": lambda x: (
        x.new(x.shape[0], 3).fill_(2) + x[:, :3],
        x.data.new().resize_(x.shape[0], 6).copy_(x).mul_(2),
        x.new().resize_as_(x).zero_() + x,
    ),
    "complex parts": lambda x: (x.cfloat() * 1j).conj().imag,
}


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name):
    told = check(ONE_GRAPH[name], *rows(5, 8, 4, 11, 7, 12, 9, 4), hits=5)
    assert len(told.graphs) == 1
    assert told.graphs[0].sizes == ["x.shape[0]"]


# Numbers of autograd's formulas that are no sizes, or follow from them.
WITH_GRADIENTS = {
    "erf": torch.erf,
    "square root": lambda x: (x * x + 1).sqrt(),
    "tan": lambda x: x.tan(),
    "maximum": lambda x: torch.maximum(x, x * 0),
    "deviation": lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5),
    "variance of all": lambda x: x.var(),
    "variance of some": lambda x: x.view(-1, 3, 2).var((0, 2)),
    "uncorrected": lambda x: x.std(0, unbiased=False),
    "corrected by 2": lambda x: torch.var(x, 0, correction=2),
    "beside another mean": lambda x: x.var(0) + 2 * x.mean(),
    "two variances": lambda x: x.var(0) + x[1:].var(0),
    "inverse": lambda x: torch.linalg.inv(x.T @ x + 9 * torch.eye(6)),
}


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_one_graph_with_gradients(name):
    def step(x):
        x = x.detach().requires_grad_()
        y = WITH_GRADIENTS[name](x)
        return y.detach(), torch.autograd.grad(y.square().sum(), x)[0]

    with torch.enable_grad():
        told = check(step, *rows(5, 8, 4, 11, 7, 12, 9, 4), hits=5)
    assert len(told.graphs) == 1


@pytest.mark.parametrize("layer", [nn.GRU, nn.RNN, nn.LSTM])
def test_batches_of_sequences_in_recurrent_layers(layer):
    torch.manual_seed(0)
    net = layer(6, 8, batch_first=True, bidirectional=True).eval()
    check(net, *[(r(size, 7, 6),) for size in (4, 5, 3, 9)], hits=2)


def test_instance_norm_repeats_its_weights():
    torch.manual_seed(0)
    net = nn.InstanceNorm2d(3, affine=True)
    check(net, *[(r(size, 3, 4, 4),) for size in (4, 5, 3, 9)], hits=2)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("extra", [0, 2])
def test_spatial_transformers_warp_images_of_any_size(extra, align_corners):
    turn = torch.tensor([[[0.9, 0.1, 0.0], [-0.1, 0.8, 0.1]]])

    def warped(x):
        theta = turn.repeat(x.shape[0], 1, 1).requires_grad_()
        grid = F.affine_grid(theta, x.size(), align_corners=align_corners)
        loss = F.grid_sample(x, grid, align_corners=align_corners).sum()
        return loss.detach(), torch.autograd.grad(loss, theta)[0]

    images = [r(2, 1, n, n + extra) for n in (5, 6, 8, 11, 5, 9)]
    with torch.enable_grad():
        check(warped, *[(image,) for image in images], hits=3)


def test_two_sizes_that_vary_one_by_one():
    def f(x):
        return x.reshape(-1).sum() / (x.shape[0] + x.shape[1])

    told = check(
        f, *[(r(a, b),) for a, b in ((4, 5), (6, 5), (6, 9), (7, 8), (9, 3))]
    )
    assert (told.captures, told.hits) == (3, 2)


def test_modules_are_one_graph():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU())
    with torch.no_grad():
        told = check(net, *rows(5, 8, 4, 11), hits=2)
    assert len(told.graphs) == 1
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    with torch.no_grad():
        check(
            lambda x: attention(x, x, x)[0],
            *[(r(b, s, 8),) for b, s in ((2, 5), (3, 7), (4, 6), (5, 9))],
            hits=2,
        )


@torch.enable_grad()
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_training_step(optimizer):
    torch.manual_seed(0)
    nets = []
    for _ in range(2):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        nets.append((net, optimizer(net.parameters(), lr=0.1)))

    def step_of(net, opt):
        def step(x):
            opt.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            opt.step()
            return loss.detach()

        return step

    compiled, eager = mica.compile(step_of(*nets[0])), step_of(*nets[1])
    for size in (5, 5, 5, 8, 8, 4, 11, 7):
        x = r(size, 6)
        same(compiled(x), eager(x))
    states = (net.state_dict().values() for net, _ in nets)
    for one, other in zip(*states, strict=True):
        same(one, other)
    assert mica.explain(compiled).hits >= 4


@torch.enable_grad()
def test_a_backward_pass_that_comes_later():
    net = nn.Linear(6, 3)

    def f(x):
        return torch.softmax(net(x), -1) + 3

    compiled = mica.compile(f)
    for size in (5, 8, 4, 11, 7):
        x = r(size, 6)
        found = []
        for fn in (compiled, f):
            net.zero_grad()
            out = fn(x)
            (out * torch.arange(3.0)).sum().backward()
            found.append((out, net.weight.grad.clone()))
        same(found[0], found[1])
    assert mica.explain(compiled).hits >= 3


def test_state_that_varies_in_size():
    class Cache:
        seen = None

    def make():
        cache = Cache()

        def f(x):
            cache.seen = x if cache.seen is None else torch.cat([cache.seen, x])
            return cache.seen.sum(0)

        return f

    compiled, eager = mica.compile(make()), make()
    for _ in range(12):
        x = r(2, 3)
        same(compiled(x), eager(x))
    assert mica.explain(compiled).hits >= 7


# ---- what doesn't follow, and has to be watched ----

NOT_FOLLOWED = {
    "a count of rounds": (
        lambda x: sum(x[i] for i in range(x.shape[0])),
        rows(5, 8, 4, 7),
    ),
    "another way": (
        lambda x: x * 2 if x.shape[0] % 2 else x + 1,
        rows(5, 7, 8, 9, 4, 6),
    ),
    "a key": (lambda x: x * {5: 1, 8: 2, 4: 3, 7: 4}[len(x)], rows(5, 8, 4, 7)),
    "length of a text": (lambda x: x * len(str(len(x))), rows(5, 8, 13, 101)),
    "a repeated text": (lambda x: x * len("a" * (len(x) // 4)), rows(6, 7, 13)),
    "0 and 1": (lambda x: x.sum(0) * len(x), rows(5, 8, 1, 0, 4)),
    "equal by chance": (
        lambda x, y: x.sum() + torch.zeros(y.shape[0]),
        [(r(a), r(b)) for a, b in ((4, 4), (6, 6), (5, 9), (7, 3))],
    ),
    "a constant that changes with it": (
        lambda x, y: x * y.shape[0],
        [(r(4), r(2)), (r(8), r(4)), (r(16), r(8)), (r(16), r(5))],
    ),
    "views that share memory": (
        lambda x: (x, x[: len(x) // 2].add_(1))[0] * 2,
        rows(5, 8, 4),
    ),
    "halves of odd images": (
        lambda x: F.interpolate(x, scale_factor=0.5),
        [(r(1, 2, 6),), (r(1, 2, 7),), (r(1, 2, 10),), (r(1, 2, 9),)],
    ),
    "square images first": (
        lambda x: F.interpolate(x, scale_factor=2),
        [(r(1, 2, a, b),) for a, b in ((6, 6), (7, 7), (5, 9), (4, 8))],
    ),
    "rounded chunks": (
        lambda x: torch.cat(x.chunk(2)[::-1]),
        rows(7, 8, 6, 11),
    ),
    "split by tensor_split": (
        lambda x: x.tensor_split(2)[1] * 1,
        [(r(7),), (r(8),), (r(6),), (r(10),)],
    ),
    "fftshift": (
        lambda x: torch.fft.fftshift(x, 0),
        [(r(6),), (r(7),), (r(10),)],
    ),
    "a reshape that copied": (
        lambda x: x.t().reshape(x.shape).add_(1) * 2,
        [(r(4, 8),), (r(2, 5),), (r(4, 4),)],
    ),
    "a slice that was all": (
        lambda x: x[:, :4] * 2,
        [(r(2, 2),), (r(2, 3),), (r(2, 6),), (r(2, 9),)],
    ),
    "a slice of all behind None": (
        lambda x: x[None, :8] * 2,
        rows(5, 7, 10, 12),
    ),
    "a slice of all behind a bool": (
        lambda x: x[True, :8] * 2,
        rows(5, 7, 10, 12),
    ),
    "a slice of all behind an ellipsis": (
        lambda x: x[..., None, :8] * 2,
        [(r(2, 3, 5),), (r(2, 3, 7),), (r(2, 3, 10),), (r(2, 3, 12),)],
    ),
    "as_strided of a slice": (
        lambda x: x[:, 2:].as_strided((4,), (1,), 3) * 2,
        [(r(2, 5),), (r(3, 5),), (r(4, 5),)],
    ),
    "padding by less than nothing": (
        lambda x: F.pad(x, (4, -4)),
        [(r(2, 4),), (r(2, 5),), (r(2, 3),)],
    ),
    "narrow() beyond the end": (
        lambda x, y: x.narrow(1, 0, y.shape[0]) * 2,
        [(r(2, 4), r(2)), (r(2, 4), r(3)), (r(2, 4), r(5))],
    ),
    "item() of sizes": (
        lambda x: x.sum() + torch.zeros(torch.tensor(x.shape).max().item()),
        [(r(9, 40),), (r(9, 28),), (r(9, 8),)],
    ),
}


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_what_does_not_follow(name):
    fn, calls = NOT_FOLLOWED[name]
    check(fn, *calls, *calls)


def test_a_program_that_gives_no_tensor():
    total, own = torch.zeros(6), torch.zeros(6)
    compiled = mica.compile(lambda x: total.add_(x.sum(0)) is None)
    for (x,) in rows(5, 8, 4, 11):
        assert compiled(x) is False
        same(total, own.add_(x.sum(0)))
    assert mica.explain(compiled).hits == 2


def test_a_number_of_the_state_that_changes_with_the_size():
    class Net(nn.Module):
        k = 2

        def forward(self, x):
            return x[: self.k].sum(0)

    net = Net()
    compiled = mica.compile(net)
    for size in (4, 8, 16, 12, 4):
        net.k = size // 2
        x = r(size, 3)
        same(compiled(x), net(x))
    net.k = 2
    x = r(16, 3)
    same(compiled(x), net(x))


def test_a_number_of_the_state_that_is_compared_with_a_size():
    class Window(nn.Module):
        def __init__(self):
            super().__init__()
            self.width, self.weight = 1, torch.ones(1)

        def forward(self, x):
            width = x.shape[1]
            if width != self.width:
                self.weight, self.width = torch.full((width,), 0.5), width
            return (x * self.weight).sum(0)

    net, other = Window(), Window()
    compiled = mica.compile(net)
    for call, size in enumerate((4, 4, 2, 3, 5, 6)):
        x = r(size, 4)
        same(compiled(x), other(x))
        assert mica.explain(compiled).hits == max(0, call - 2)
    for size in ((5, 3), (6, 3), (7, 3), (4, 4), (8, 3), (9, 4), (9, 9)):
        x = r(*size)
        same(compiled(x), other(x))
        assert net.width == other.width


@torch.enable_grad()
def test_the_gradient_of_a_mean_beside_another_size():
    def step(x, y):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(x.mean() + y.sum() * 0, [x])
        return gradient

    calls = [(r(2, 4), r(8)), (r(3, 4), r(12)), (r(5, 4), r(9))]
    check(step, *calls, *calls)


def test_dynamic_false_keeps_a_graph_for_each_size():
    compiled = mica.compile(lambda x: x * 2, dynamic=False)
    for size in (2, 3, 4, 2, 3, 4):
        compiled(torch.ones(size))
    told = mica.explain(compiled)
    assert len(told.graphs) == 3 and told.hits == 3
    assert all(not graph.sizes for graph in told.graphs)


def test_exact_numbers_at_all_sizes():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.LayerNorm(32)).eval()
    compiled = mica.compile(net, exact=True)
    with torch.no_grad():
        for size in (5, 8, 4, 11, 7):
            x = r(size, 6)
            assert torch.equal(compiled(x), net(x))
    assert mica.explain(compiled).hits == 3


def test_frozen_weights_at_all_sizes():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    compiled = mica.compile(net, frozen=True)
    with torch.no_grad():
        for size in (5, 8, 4, 11, 7, 5):
            x = r(size, 64)
            same(compiled(x), net(x))
    told = mica.explain(compiled)
    assert told.hits == 4 and len(told.graphs) == 1


EMPTY_BATCHES = {
    "lu": torch.linalg.lu,
    "lu_factor_ex": lambda x: tuple(torch.linalg.lu_factor_ex(x)),
    "qr": lambda x: tuple(torch.linalg.qr(x)),
    "svd": lambda x: tuple(torch.linalg.svd(x, full_matrices=False)),
}


@pytest.mark.parametrize("name", EMPTY_BATCHES)
@pytest.mark.parametrize("batch", [0, 2])
def test_sizes_that_are_the_less_of_two(name, batch):
    # In both watched runs the rows were fewer than the columns.
    def shapes(x):
        return tuple(
            tuple(t.shape)
            for t in map(torch.empty_like, EMPTY_BATCHES[name](x))
        )

    def program(x):
        return EMPTY_BATCHES[name](x)

    compiled = mica.compile(program)
    for rows_ in (2, 3, 4, 7, 6, 3, 9):
        x = r(batch, rows_, 5)
        assert tuple(tuple(t.shape) for t in compiled(x)) == shapes(x)
