"""Several results that require grad: each is gone back from by itself, in any
order, as far as eager allows it; what is used up or was written since counts
for the results that are made of it.
"""

import copy

import pytest
import torch
from torch import nn

import mica

CALLS = 4


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield
        # Autograd keeps the graph of an error until it runs again.
        torch.ones(1, requires_grad=True).sum().backward()


class Heads(nn.Module):
    """Layers a, b and t, and a function of them and two arguments."""

    def __init__(self, f):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.t = nn.Linear(4, 4)
        self.f = f

    def forward(self, x, y):
        return self.f(self, x, y)


def apart(m, x, y):
    return torch.tanh(m.a(x)).sum(), torch.tanh(m.b(y)).sum()


def heads(m, x, y):
    del y
    h = torch.tanh(m.t(x))
    return torch.tanh(m.a(h)).sum(), torch.tanh(m.b(h)).sum(), h


def of_a_sum(m, x, y):
    del m, y
    z = x + 1
    return torch.tanh(z).sum(), torch.sigmoid(z).sum()


def of_one_weight(m, x, y):
    del y
    w = m.t.weight
    z = w + 1
    last = (torch.sigmoid(z) * x[0]).sum() + w.sum()
    return torch.tanh(z).sum(), last, w.mean()


def of_a_product(m, x, y):
    del x, y
    z = m.t.weight * 2
    return z.sum(), z.mean()


def states(m, x, y):
    del y
    steps = [torch.tanh(m.t(x))]
    for _ in range(3):
        steps.append(torch.tanh(m.a(steps[-1])))
    return (*steps, torch.stack(steps))


def normed(m, x, y):
    h = nn.functional.layer_norm(m.t(x), (4,))
    g = nn.functional.layer_norm(m.b(y), (4,))
    return h, (h.t() @ g).relu(), g.mean(0)


def in_a_list(m, x, y):
    """Two losses of an adversarial net: each has its own optimizer."""
    fake = m.a(x)
    return [m.b(fake).square().mean(), m.b(fake.detach() + y).square().mean()]


PROGRAMS = {
    f.__name__: f
    for f in (
        apart,
        heads,
        of_a_sum,
        of_one_weight,
        of_a_product,
        states,
        normed,
        in_a_list,
    )
}


def write(tensor):
    with torch.no_grad():
        tensor.mul_(0.5)


def go_back(results, **options):
    for result in results:
        result.sum().backward(**options)


def both(first, second):
    """Goes back from two results with a write in between."""

    def act(module, results, x):
        del x
        go_back(results[first:][:1], retain_graph=True)
        write(module.b.weight)
        go_back(results[second:][:1])

    return act


ACTIONS = {
    "one after the other": lambda m, r, x: go_back(r),
    "the last one first": lambda m, r, x: go_back(r[::-1]),
    "each twice": lambda m, r, x: go_back([*r, *r], retain_graph=True),
    "one used up": lambda m, r, x: go_back([r[-1], r[-1]]),
    "a sum": lambda m, r, x: sum(part.sum() for part in r).backward(),
    "a weight is written": lambda m, r, x: (write(m.b.weight), go_back(r[:1])),
    "the other one is": lambda m, r, x: (write(m.a.weight), go_back(r[1:2])),
    "the shared one is": lambda m, r, x: (write(m.t.weight), go_back(r[1:2])),
    "a result is": lambda m, r, x: (r[0].detach().add_(1), go_back(r[1:2])),
    "this result is": lambda m, r, x: (r[0].detach().add_(1), go_back(r[:1])),
    "a step between": both(0, 1),
    "a step before": both(1, 0),
    "of the argument": lambda m, r, x: torch.autograd.grad(
        r[0].sum(), x, allow_unused=True
    ),
}


def outcome(act, module, run, data):
    """What eager and a served call have to agree on."""
    module.zero_grad()
    x, y = data[0].clone().requires_grad_(), data[1].clone()
    results = run(x, y)
    error = found = None
    try:
        found = act(module, results, x)
    except RuntimeError as raised:
        error = str(raised).split("[", maxsplit=1)[0]
    gradients = [x.grad, *(p.grad for p in module.parameters())]
    found = list(found) if isinstance(found, tuple) else []
    found = [part for part in found if part is None or part.dim() > 0]
    return error, [r.detach().clone() for r in results], gradients + found


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_result_is_gone_back_from_as_in_eager(program, action):
    eager = Heads(PROGRAMS[program])
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for _ in range(CALLS):
        data = torch.randn(3, 4), torch.randn(3, 4)
        wanted = outcome(ACTIONS[action], eager, eager, data)
        got = outcome(ACTIONS[action], served, compiled, data)
        assert wanted[0] == got[0]
        for some, others in zip(wanted[1:], got[1:], strict=True):
            for a, b in zip(some, others, strict=True):
                assert (a is None) == (b is None)
                assert a is None or torch.equal(a, b)
    assert mica.explain(compiled).hits == CALLS - 1, str(mica.explain(compiled))


def test_two_optimizers_take_turns():
    eager = Heads(heads)
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    kept = []
    for module, run in ((eager, eager), (served, compiled)):
        torch.manual_seed(1)
        first = torch.optim.Adam(module.a.parameters(), 0.1)
        second = torch.optim.SGD([*module.b.parameters()], 0.1)
        losses = []
        for _ in range(5):
            x = torch.randn(3, 4)
            la, lb, _ = run(x, x)
            la.backward(retain_graph=True)
            first.step()
            lb.backward()
            second.step()
            losses += [la.detach(), lb.detach()]
            module.zero_grad()
        kept.append(losses)
    assert mica.explain(compiled).hits == 4
    for a, b in zip(*kept, strict=True):
        assert torch.equal(a, b)
