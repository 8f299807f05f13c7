"""Results that require grad and are views: of each other, of a tensor that
isn't returned, of arguments and state. What their users then write, and what
goes back through them, is as in eager.
"""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

import mica

CALLS = 5


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield


class Block(nn.Module):
    """A layer, and a function of what it makes."""

    def __init__(self, f):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.f = f

    def forward(self, x):
        return self.f(torch.tanh(self.layer(x)), x)


class Weight(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x), self.layer.weight.t()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        out, _ = self.layer(x[None])
        return out, out[:, -1]


def filled(h, _):
    h = torch.zeros(4, 16).index_copy(1, torch.arange(8), h)
    h[:, 8:] = h[:, :8] * 2
    return h[:, 4:12], h


def written(h, _):
    h = h + 1
    first = h[:, 0]
    h.mul_(2)
    first.add_(1)
    return first, h


def summed(h, _):
    h = h + 1
    return h.view(2, 16).relu_().view(4, 8).sum(), h


VIEWS = {
    "chunk": lambda h, _: h.chunk(2, 1),
    "split": lambda h, _: h.split([1, 3, 4], dim=1),
    "unbind": lambda h, _: h.unbind(0),
    "one of a chunk": lambda h, _: (h.chunk(2, 1)[0], h),
    "a row": lambda h, _: {"all": h, "first": h[:, 0]},
    "turned": lambda h, _: (h, h.t(), h.view(2, 16)),
    "of a view": lambda h, _: (h[:, 1:5], h[:, 1:5].t()[1:]),
    "steps": lambda h, _: (h[::2, ::3], h[1::2]),
    "spread": lambda h, _: (h.sum(), h[:, :1].expand(4, 3), h[:, 2:]),
    "windows": lambda h, _: (h.unfold(1, 4, 2), h),
    "detached": lambda h, _: (h, h.detach(), h.detach()[0]),
    "of an argument": lambda h, x: (h, x.view(-1), x[0]),
    "itself": lambda h, x: (h, h, x, x.t()),
    "filled": filled,
    "written": written,
    "written by another view": summed,
    "a layer in place": lambda h, _: (
        torch.relu_(nn.functional.instance_norm(h.view(1, 4, 8))).sum(),
    ),
}


def same(want, got, exact=True):
    """Asserts that lists of tensors are equal, to the bit if `exact`."""
    tolerance = 0 if exact else 1e-4
    for a, b in zip(want, got, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def losses(result):
    if isinstance(result, dict):
        result = list(result.values())
    return [part for part in result if part.requires_grad]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", [*VIEWS, "of a weight", "recurrent"])
def test_gradients(name, exact):
    torch.manual_seed(0)
    if name in VIEWS:
        eager = Block(VIEWS[name])
    else:
        eager = Weight() if name == "of a weight" else Recurrent()
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=exact)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (eager, served)]
    for call in range(CALLS):
        found = []
        data = torch.randn(4, 8)
        for run, optimizer in zip((eager, compiled), optimizers, strict=True):
            x = data.clone().requires_grad_()
            optimizer.zero_grad()
            result = run(x)
            parts = losses(result)
            # At times of some of them only.
            used = parts[call % 2 :: 1 + call % 2] or parts
            sum(
                (part * (i + 2)).sum() for i, part in enumerate(used)
            ).backward()
            optimizer.step()
            found.append((parts, x.grad))
        (parts, grad), (others, other_grad) = found
        for a, b in zip(parts, others, strict=True):
            assert a.stride() == b.stride()
            assert a.storage_offset() == b.storage_offset()
            assert a._is_view() == b._is_view()
        same(parts, others, exact)
        same([grad], [other_grad], exact)
        same(
            [p.grad for p in eager.parameters()],
            [p.grad for p in served.parameters()],
            exact,
        )
    assert mica.explain(compiled).hits == CALLS - 1, str(mica.explain(compiled))


def both(f, use, calls=4):
    """What `use` makes of f's result and argument, in eager and at a hit."""
    compiled = mica.compile(f, exact=True)
    for call in range(calls):
        ends = []
        for run in (f, compiled):
            x = torch.full((4, 4), call + 0.5, requires_grad=True)
            try:
                use(run(x), x)
                ends.append(x.grad)
            except RuntimeError as error:
                ends.append(type(error))
        if isinstance(ends[0], torch.Tensor):
            same(ends[:1], ends[1:])
        else:
            assert ends[0] is ends[1]
    assert mica.explain(compiled).hits == calls - 1, str(mica.explain(compiled))
    return ends[0]


def test_writes_to_the_base_reach_the_view():
    def use(result, _):
        base, view = result
        base.mul_(3)
        view.square().sum().backward()

    end = both(lambda x: ((y := x * 2), y[:, 0]), use)
    assert isinstance(end, torch.Tensor)


def test_writes_to_the_view_reach_the_base():
    def use(result, _):
        base, view = result
        view.mul_(3)
        base.square().sum().backward()

    end = both(lambda x: ((y := x * 2), y[:, 0]), use)
    assert isinstance(end, torch.Tensor)


def test_writes_to_one_of_several_views_raise():
    def use(result, _):
        result[0].mul_(3)

    assert both(lambda x: (x * 2).chunk(2), use) is RuntimeError
    assert both(lambda x: (x * 2).unbind(), use) is RuntimeError


def test_writes_to_what_the_pass_reads_raise():
    def use(result, _):
        base, view, detached = result
        detached.add_(1)
        (base.sum() + view.sum()).backward()

    f = lambda x: ((y := torch.tanh(x)), y[0], y.detach())  # noqa: E731
    assert both(f, use) is RuntimeError


@pytest.mark.parametrize(
    "f", [lambda x: (x * 2, x.view(-1)), lambda x: (x[0], x.view(-1))]
)
def test_writes_to_an_argument_reach_its_view(f):
    def use(result, x):
        with torch.no_grad():
            x.mul_(3)
        made, view = result
        (made.sum() + view.square().sum()).backward()

    assert isinstance(both(f, use), torch.Tensor)


def test_a_view_that_is_let_go_takes_its_pass_along():
    compiled = mica.compile(lambda x: (torch.tanh(x) * 2).chunk(2), exact=True)
    x = torch.ones(4, 4, requires_grad=True)
    for _ in range(3):
        first, second = compiled(x)
    assert mica.explain(compiled).hits == 2
    gone = weakref.ref(first)
    base = weakref.ref(first._base)
    del first, second
    gc.collect()
    assert gone() is None
    assert base() is None


def test_views_of_what_lies_upon_itself_have_eagers_gradients():
    def halves(x):
        return x.chunk(2, -1)

    compiled = mica.compile(halves)
    for function in [halves, *[compiled] * CALLS]:
        w = torch.ones(3, 1, requires_grad=True)
        a, b = function(w.expand(3, 4))
        (2 * a.sum() + b.sum()).backward()
        assert torch.equal(w.grad, torch.full((3, 1), 6.0))
