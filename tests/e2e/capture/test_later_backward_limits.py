"""What a later backward pass raises, refuses, leaves to eager and lets go."""

import copy
import weakref

import pytest
import torch
from e2e.capture.later_passes import (
    Doubled,
    Heads,
    States,
    grad_is_on,
    gradients_of,
    mlp,
    same,
    served_twice,
)
from torch import nn
from torch.utils.checkpoint import checkpoint

import mica

_grad = pytest.fixture(autouse=True)(grad_is_on)


def error_of(action):
    with pytest.raises(RuntimeError) as raised:
        action()
    return str(raised.value)


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_a_graph_is_used_up_or_retained():
    model = nn.Linear(4, 4)
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(2, 4))

    def twice(run):
        y = run(torch.ones(2, 4)).square()
        y.sum().backward()
        y.sum().backward()

    assert error_of(lambda: twice(model)) == error_of(lambda: twice(compiled))
    kept = []
    for run in (model, compiled):
        model.zero_grad()
        y = run(torch.ones(2, 4)).square()
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        kept.append(gradients_of(model))
    same(*kept)


class Unread(torch.autograd.Function):
    """Saves what its backward pass never asks for."""

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Read(Unread):
    """As `Unread`, but for the asking."""

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g * v


@pytest.mark.parametrize("function", [Unread, Read])
@pytest.mark.parametrize("before", [torch.clone, torch.exp])
@pytest.mark.parametrize("is_within", [False, True])
def test_who_reads_what_it_saved_goes_back_once(function, before, is_within):
    def program(x):
        y = function.apply(before(x))
        if is_within:
            y.sum().backward()
        return y

    compiled = mica.compile(program)
    told = []
    for run in (program, compiled, compiled, compiled):
        x = leaf()
        y = run(x)
        if not is_within:
            y[0].backward()
        try:
            y[1].backward()
            told.append(x.grad.tolist())
        except RuntimeError as error:
            told.append(str(error))
    assert told == told[:1] * 4
    assert mica.explain(compiled).hits == 2


# Writes to views, whose nodes let go of what they hold, saved tensors or not.
WRITES = {
    "a number": lambda x, y: y.view(-1)[0].fill_(2.0),
    "a tensor": lambda x, y: y.view(-1)[0].copy_(x[1]),
    "a product": lambda x, y: y[1:].mul_(2.0),
    "a sum": lambda x, y: y[1:].add_(1.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize(
    "after", [lambda y: y, lambda y: y + 1, lambda y: y[:2], lambda y: y.t()]
)
def test_a_write_to_a_view_is_gone_back_through_once(write, after):
    def f(x):
        y = x.clone()
        write(x, y)
        return after(y)

    compiled = served_twice(mica.compile(f, exact=True), leaf())

    def twice(run, x, retain):
        y = run(x)
        y[0].backward(retain_graph=retain)
        y[1].backward()

    one, other = leaf(), leaf()
    assert "a second time" in error_of(lambda: twice(f, one, False))
    assert "a second time" in error_of(lambda: twice(compiled, other, False))
    same([one.grad], [other.grad])
    one, other = leaf(), leaf()
    twice(f, one, True)
    twice(compiled, other, True)
    same([one.grad], [other.grad])


def test_what_was_kept_may_not_be_written():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(2, 4))
    y = compiled(torch.ones(2, 4))
    with torch.no_grad():
        model[2].weight.mul_(2)
    assert "modified by an inplace operation" in error_of(y.sum().backward)

    relu = mica.compile(torch.relu, exact=True)
    served_twice(relu, torch.ones(3, requires_grad=True))
    y = relu(torch.ones(3, requires_grad=True))
    y += 1
    assert "modified by an inplace operation" in error_of(y.sum().backward)


def test_a_result_may_be_written_that_was_not_kept():
    model = nn.Linear(4, 4)
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(2, 4))
    kept = []
    for run in (model, compiled):
        model.zero_grad()
        y = run(torch.ones(2, 4))
        y *= 3
        y.sum().backward()
        kept.append(gradients_of(model))
    same(*kept)


def test_gradients_of_gradients_are_refused_once():
    def f(x):
        return x * x * x

    compiled = mica.compile(f, exact=True)
    x = torch.ones(3, requires_grad=True)
    served_twice(compiled, x)

    def twice(run):
        (g,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    message = error_of(lambda: twice(compiled))
    assert "create_graph=True" in message
    assert "compile the whole step" in message
    # From then on such results are eager's.
    for _ in range(3):
        same(twice(f), twice(compiled))
    reasons = [str(refusal) for refusal in mica.explain(compiled).refusals]
    assert any("gradients of gradients" in reason for reason in reasons)
    mica.reset(compiled)
    served_twice(compiled, x)


@pytest.mark.parametrize("batched", [False, True])
def test_going_back_as_only_eager_can_is_seen_in_the_watched_run(batched):
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    other = served_twice(mica.compile(mlp().eval(), exact=True), torch.ones(8))
    for call in range(4):
        kept = []
        for model, run in ((eager, eager), (served, compiled)):
            torch.manual_seed(call)
            x = torch.randn(3, 4, requires_grad=True)
            y = run(x)
            if batched:
                (g,) = torch.autograd.grad(
                    y,
                    x,
                    torch.eye(6).view(6, 3, 2),
                    is_grads_batched=True,
                )
                kept.append([g])
                continue
            (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            model.zero_grad()
            (g.norm(dim=1) - 1).square().mean().backward()
            kept.append(gradients_of(model))
        same(*kept)
    assert mica.explain(compiled).hits == 0
    why = "in batches" if batched else "gradients of gradients"
    assert why in str(mica.explain(compiled).refusals[0])
    # Others go on.
    hits = mica.explain(other).hits
    other(torch.ones(8)).sum().backward()
    assert mica.explain(other).hits == hits + 1


def test_gradients_in_batches_that_come_as_a_surprise_are_refused_once():
    compiled = mica.compile(lambda x: x * x, exact=True)
    x = torch.ones(3, requires_grad=True)
    served_twice(compiled, x)

    def jacobian():
        return torch.autograd.grad(
            compiled(x), x, torch.eye(3), is_grads_batched=True
        )[0]

    assert "in batches" in error_of(jacobian)
    for _ in range(2):
        assert torch.equal(jacobian(), 2 * torch.eye(3))


@pytest.mark.parametrize("used", ["first", "second"])
def test_hooks_on_results_that_nobody_uses_are_not_called(used):
    model = Heads()
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(2, 8))
    for fn in (model, compiled):
        y = fn(torch.ones(2, 8))
        seen = []
        for name, result in y.items():
            result.register_hook(
                lambda g, name=name, seen=seen: seen.append((name, g))
            )
            result.retain_grad()
        y[used].sum().backward()
        # The one that is used was made of h.
        assert [name for name, _ in seen] == [used, "h"]
        assert torch.equal(seen[0][1], torch.ones_like(y[used]))
        assert {name for name in y if y[name].grad is not None} == {used, "h"}


def test_a_run_that_nobody_goes_back_from_is_freed():
    compiled = served_twice(
        mica.compile(States(), exact=True), torch.ones(2, 8)
    )
    x = torch.ones(2, 8, requires_grad=True)
    compiled(x)
    compiled(x)
    gone = weakref.ref(x)
    y = compiled(x)
    del x
    assert gone() is not None
    del y
    assert gone() is None


def test_checkpointed_calls_run_eagerly():
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for _ in range(4):
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            x = torch.ones(2, 8, requires_grad=True)
            checkpoint(run, x, use_reentrant=False).sum().backward()
        same(gradients_of(eager), gradients_of(served))


def test_a_gradient_that_is_passed_on_is_not_shared():
    def f(x, y):
        return x + y

    compiled = mica.compile(f, exact=True)
    x = torch.ones(3, requires_grad=True)
    y = torch.ones(3, requires_grad=True)
    served_twice(compiled, x, y)
    gradient = torch.ones(3)
    compiled(x, y).backward(gradient)
    gradient.mul_(5)
    x.grad.mul_(2)
    assert torch.equal(x.grad, torch.full((3,), 2.0))
    assert torch.equal(y.grad, torch.ones(3))


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: ((y := x * 2), y.detach().requires_grad_()), "a leaf"),
        (Doubled.apply, "whose backward() changes"),
    ],
    ids=["a leaf", "a Function"],
)
def test_what_cannot_be_gone_back_from_runs_eagerly(f, why):
    compiled = mica.compile(f, exact=True)
    for call in range(4):
        x = torch.full((4,), call + 0.5, requires_grad=True)
        y = torch.full((4,), call + 0.5, requires_grad=True)
        for run, argument in ((f, x), (compiled, y)):
            result = run(argument)
            parts = result if isinstance(result, tuple) else (result,)
            sum(part.square().sum() for part in parts).backward()
        assert torch.equal(x.grad, y.grad)
    reasons = [refusal.text for refusal in mica.explain(compiled).refusals]
    assert any(
        reason.startswith("returns a tensor that requires grad")
        and why in reason
        for reason in reasons
    ), reasons


def test_modes_are_records_of_their_own():
    model = nn.Linear(4, 4)
    compiled = mica.compile(model, exact=True)
    for _ in range(3):
        assert compiled(torch.ones(2, 4)).requires_grad
        with torch.no_grad():
            assert not compiled(torch.ones(2, 4)).requires_grad
    explanation = mica.explain(compiled)
    assert [bool(g.backward_ops) for g in explanation.graphs].count(True) == 1
    assert (len(explanation.graphs), explanation.hits) == (2, 4)


def test_frozen_parameters_get_none():
    torch.manual_seed(0)
    eager = mlp().eval()
    eager[0].requires_grad_(False)
    served = copy.deepcopy(eager)
    compiled = mica.compile(served, exact=True)
    for call in range(4):
        if call == 2:
            for model in (eager, served):
                model[0].requires_grad_(True)
        for model, run in ((eager, eager), (served, compiled)):
            model.zero_grad()
            run(torch.ones(5, 8)).square().sum().backward()
        same(gradients_of(eager), gradients_of(served))
    assert len(mica.explain(compiled).graphs) == 2


@pytest.mark.once("torch keeps the source of the module")
def test_a_graph_for_others_has_the_results_alone():
    model = mlp().eval()
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(5, 8))
    module = mica.to_fx(mica.records(compiled)[0])
    (got,) = module(torch.ones(5, 8))
    assert torch.equal(got, model(torch.ones(5, 8)))


def test_a_pass_outlives_its_record():
    model = nn.Linear(4, 4)
    compiled = served_twice(mica.compile(model, exact=True), torch.ones(2, 4))
    y = compiled(torch.ones(2, 4))
    del compiled
    mica.reset()
    y.sum().backward()
    assert torch.equal(model.bias.grad, torch.full((4,), 2.0))


PARTS = {
    "the first": lambda y: y.chunk(2, -1)[0],
    "the last": lambda y: y.unbind()[1],
    "a part of one": lambda y: y.split(1)[0][0],
    "one turned": lambda y: y.chunk(2, -1)[1].t(),
    "all": lambda y: y.unbind(),
    "a new tensor": lambda y: y.chunk(2, -1)[0] * 2,
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("inner", [False, True])
def test_one_of_several_views_may_not_be_written(part, inner):
    model = nn.Linear(4, 4)

    def program(x):
        return PARTS[part](model(x))

    def outcome(call):
        model.zero_grad()
        y = call(torch.ones(2, 4))
        y = y[-1] if isinstance(y, tuple) else y
        try:
            (y[0] if inner else y).add_(1)
            y.sum().backward()
        except RuntimeError as error:
            return str(error), y.output_nr
        return model.weight.grad.tolist(), y.output_nr

    compiled = mica.compile(program)
    want = outcome(program)
    assert [outcome(compiled) for _ in range(4)] == [want] * 4
    assert mica.explain(compiled).hits == 3
