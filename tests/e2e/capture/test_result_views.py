"""What autograd and its counters of writes know of results that share memory:
views of leaves made without gradients, results beside views of themselves,
detached ones. All of it is eager's at each call, and so is what comes of it.
"""

import contextlib

import pytest
import torch
from torch import nn

import mica

CALLS = 4


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield


def in_no_grad(f):
    def program(x):
        with torch.no_grad():
            return f(x)

    return program


def in_inference(f):
    def program(x):
        with torch.inference_mode():
            return f(x)

    return program


VIEWS = {
    "slice": lambda x: x[:2],
    "row": lambda x: x[1],
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(2, 8),
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1)[1:],
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x[None],
    "squeeze": lambda x: x[:1].squeeze(0),
    "expand": lambda x: x[:1].expand(3, 4),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(0, 2),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split([1, 3], 1),
    "unbind": lambda x: x.unbind(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 4)),
    "view_as": lambda x: x.view_as(x),
    "of a view": lambda x: x[1:].t()[:, 0],
    "two": lambda x: (x[:2], x[:2].t()),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view of detached": lambda x: x.detach()[1:],
    "detached view": lambda x: x[1:].detach(),
    "detached twice": lambda x: (x.detach(), x.detach()),
    "made": lambda x: ((y := x * 2), y[0]),
    "made and detached": lambda x: ((y := x * 2), y.detach(), y.detach()[0]),
    "made and data": lambda x: ((y := x * 2), y.data),
    "view of a view": lambda x: ((y := x * 2), (z := y[1:]), z.t()),
    "written": lambda x: ((y := x * 2).add_(1).mul_(2), y[1:]),
    "view written": lambda x: ((y := x * 2), y[0].add_(1)),
    "two of none": lambda x: (x * 2).chunk(2),
    "view made so": lambda x: ((y := x * 2), in_no_grad(lambda v: v[1:])(y)),
}

USES = {
    "nothing": lambda r, x: None,
    "going back": lambda r, x: sum(
        ((part * 2).sum() for part in r if part.requires_grad),
        torch.zeros(1, requires_grad=True),
    ).backward(),
    "a write": lambda r, x: r[0].mul_(3),
    "a write to the last": lambda r, x: r[-1].mul_(3),
    "a write to x": lambda r, x: in_no_grad(lambda t: t.mul_(3))(x),
    "detach_": lambda r, x: r[-1].detach_(),
    "requires_grad_": lambda r, x: r[-1].requires_grad_(),
    "a tracked write": lambda r, x: (
        r[0].mul_(torch.ones(1, requires_grad=True)).sum().backward()
    ),
}

MODES = {
    "grad": lambda f: f,
    "no_grad inside": in_no_grad,
    "inference inside": in_inference,
}


def wording(raised):
    """A message without the operator that made a view: a hit has one kind."""
    return str(raised).split(".", maxsplit=1)[0].split(" is a view ")[-1]


def asked(question):
    """What is told, or that asking raises."""
    try:
        return question()
    except RuntimeError as raised:
        return wording(raised)


def seen(tensor, known):
    """What users may see of a tensor but its values."""
    base = tensor._base
    return (
        asked(lambda: tensor.is_leaf),
        tensor.requires_grad,
        asked(lambda: tensor.grad_fn is None),
        tensor._is_view(),
        None if base is None else [base is other for other in known],
        tensor.is_inference(),
        None if tensor.is_inference() else tensor._version,
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        [
            tensor.untyped_storage().data_ptr()
            == other.untyped_storage().data_ptr()
            for other in known
        ],
    )


def in_no_grad_of_a_leaf(call):
    leaf = torch.arange(call, call + 16.0, requires_grad=True)
    return in_no_grad(lambda t: t.view(4, 4))(leaf)


ARGUMENTS = {
    "rows": lambda call: (torch.arange(32.0).view(8, 4) + call)[2:6],
    "columns": lambda call: (torch.arange(32.0).view(4, 8) + call)[:, ::2],
    "transposed": lambda call: (torch.arange(16.0).view(4, 4) + call).t(),
    "of a leaf": in_no_grad_of_a_leaf,
}


def plain(call):
    return torch.arange(16.0).view(4, 4) + call


def outcome(run, use, call, needs_grad, outside, argument=plain):
    x = argument(call)
    if needs_grad:
        x.requires_grad_()
    try:
        with outside():
            result = run(x)
    except RuntimeError as raised:  # A view that there can't be.
        return None, wording(raised), None
    parts = result if isinstance(result, (tuple, list)) else (result,)
    known = [x, *parts] if x._base is None else [x, *parts, x._base]
    before = [seen(part, known) for part in known]
    error = None
    try:
        use(parts, x)
    except RuntimeError as raised:
        error = wording(raised)
    after = [seen(part, known) for part in known]
    values = [part.detach().clone() for part in known]
    gradients = [None if part.grad is None else part.grad for part in known[:1]]
    return before, error, after, values, gradients


def check(f, use, needs_grad, outside=contextlib.nullcontext, argument=plain):
    compiled = mica.compile(f, exact=True)
    for call in range(CALLS):
        given = use, call, needs_grad, outside, argument
        want = outcome(f, *given)
        got = outcome(compiled, *given)
        assert want[:3] == got[:3]
        for some, others in zip(want[3:], got[3:], strict=True):
            for a, b in zip(some, others, strict=True):
                assert (a is None) == (b is None)
                assert a is None or torch.equal(a, b)
    return mica.explain(compiled)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("needs_grad", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_known_as_in_eager(view, mode, needs_grad):
    for use in USES.values():
        told = check(MODES[mode](VIEWS[view]), use, needs_grad)
        if mode != "inference inside":
            assert told.hits >= CALLS - 2 or told.refusals, str(told)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("outside", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("view", VIEWS)
def test_views_made_without_gradients_around_the_call(view, outside):
    for use in USES.values():
        told = check(VIEWS[view], use, True, outside)
        assert told.hits == CALLS - 1, str(told)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_an_argument_that_is_one(view, argument):
    for use in USES.values():
        check(VIEWS[view], use, False, argument=ARGUMENTS[argument])


def test_a_write_through_a_view_leads_to_an_argument_that_is_one():
    compiled = mica.compile(lambda x: (x[:2], x[2:]))
    weight = torch.ones(2, requires_grad=True)
    for _ in range(CALLS):
        x = torch.ones(8)[::2]
        first, second = compiled(x)
        first.mul_(weight)
        assert x.requires_grad
        assert second.requires_grad
        assert second._base is x._base
    assert mica.explain(compiled).hits == CALLS - 1


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = nn.Parameter(torch.arange(8.0))
        self.cache = None

    def forward(self, x):
        with torch.no_grad():
            self.cache = self.pos[: x.shape[0]]
        return x * 2


def test_a_view_that_is_kept_in_the_module_is_no_way_back():
    eager, served = Positions(), Positions()
    compiled = mica.compile(served)
    for _ in range(CALLS):
        for module, run in ((eager, eager), (served, compiled)):
            run(torch.ones(3))
            cache = module.cache
            assert cache.is_leaf
            assert cache.grad_fn is None
            assert cache._base is module.pos
            (cache * 2).sum().backward()
            assert module.pos.grad is None
    assert mica.explain(compiled).hits >= CALLS - 2
