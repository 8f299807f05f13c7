"""torch.utils.checkpoint within a step: one graph, and what eager computes."""

import collections
import contextlib
import functools
import io

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

import mica

SIZE, ROWS = 8, 4
again = functools.partial(checkpoint, use_reentrant=False)


class Part(nn.Module):
    """What is computed again: it draws, and takes a keyword."""

    def __init__(self, probability=0.3):
        super().__init__()
        self.inner = nn.Linear(SIZE, SIZE)
        self.outer = nn.Linear(SIZE, SIZE)
        self.drop = nn.Dropout(probability)

    def forward(self, x, scale=1.0):
        h = self.drop(torch.tanh(self.inner(x)) * scale)
        return self.outer(torch.sigmoid(h)) + x


def plainly(part, x):
    return checkpoint(part, x, use_reentrant=False)


def with_keywords(part, x):
    return checkpoint(part, x, use_reentrant=False, scale=2.0)


def without_states(part, x):
    part.drop.p = 0.0
    return checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)


def by_partial(part, x):
    return again(functools.partial(part, scale=0.5), x)


def nested(part, x):
    def inner(y):
        return checkpoint(part, torch.cos(y), use_reentrant=False) * 2

    return checkpoint(inner, x * 1, use_reentrant=False)


def to_the_end(part, x):
    with set_checkpoint_early_stop(False):
        return checkpoint(part, x, use_reentrant=False)


def in_sequence(part, x):
    return checkpoint_sequential(
        [part, torch.tanh, part], 2, x, use_reentrant=False
    )


def of_two_tensors(part, x):
    def both(a, b):
        return part(a) * b.cos(), a

    first, second = checkpoint(both, x, x * 0.5, use_reentrant=False)
    return first + second


def under_autocast(part, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return checkpoint(part, x, use_reentrant=False).float()


WAYS = [
    plainly,
    with_keywords,
    without_states,
    by_partial,
    nested,
    to_the_end,
    in_sequence,
    of_two_tensors,
    under_autocast,
]


def step_of(way, make_pass):
    torch.manual_seed(1)
    parts = nn.ModuleList([Part() for _ in range(3)])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        h = x
        for part in parts:
            h = way(part, h)
        make_pass(h.square().mean(), list(parts.parameters()))
        optimizer.step()
        return h.detach().sum()

    return parts, step


def by_backward(loss, _):
    loss.backward()


def by_grad(loss, parameters):
    for parameter, gradient in zip(
        parameters, torch.autograd.grad(loss, parameters), strict=True
    ):
        parameter.grad = gradient


def twice(loss, _):
    loss.backward(retain_graph=True)
    loss.backward()


@pytest.mark.parametrize("make_pass", [by_backward, by_grad, twice])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_step_is_one_graph_and_eagers(way, make_pass):
    parts, step = step_of(way, make_pass)
    twins, eager = step_of(way, make_pass)
    compiled = mica.compile(step)
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(ROWS, SIZE)
        state = torch.get_rng_state()
        got = compiled(x)
        drawn = torch.get_rng_state()
        torch.set_rng_state(state)
        torch.testing.assert_close(got, eager(x), rtol=1e-4, atol=1e-5)
        assert torch.equal(drawn, torch.get_rng_state())
        for mine, theirs in zip(
            parts.parameters(), twins.parameters(), strict=True
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    explanation = mica.explain(compiled)
    assert explanation.hits >= 2, explanation.details()
    assert not explanation.pieces


def test_what_is_computed_again_is_not_kept():
    def make(wraps):
        torch.manual_seed(0)
        layers = [
            nn.Sequential(
                nn.Linear(64, 256), nn.GELU(), nn.Tanh(), nn.Linear(256, 64)
            )
            for _ in range(8)
        ]
        x = torch.randn(64, 64)

        def step():
            h = x.detach().requires_grad_()
            first = h
            for layer in layers:
                h = again(layer, h) if wraps else layer(h)
            return torch.autograd.grad(h.sum(), first)[0]

        compiled = mica.compile(step)
        for _ in range(3):
            compiled()
        [graph] = mica.explain(compiled).graphs
        return graph.arena_bytes

    assert make(True) < 0.5 * make(False)


def test_the_end_of_what_is_computed_again_has_its_effects_once():
    def noisy(part, x):
        def run(y):
            print("begins")
            result = part(y)
            print("ends")
            return result

        return checkpoint(run, x, use_reentrant=False)

    outputs = []
    for compiles in (False, True):
        _, step = step_of(noisy, by_backward)
        call = mica.compile(step) if compiles else step
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            for seed in range(4):
                torch.manual_seed(seed)
                call(torch.randn(ROWS, SIZE))
        outputs.append(text.getvalue())
    assert outputs[0] == outputs[1]


def errors_of(program, calls=3):
    told = []
    for call in (program, mica.compile(program)):
        for _ in range(calls):
            with pytest.raises(RuntimeError) as caught:
                call(torch.randn(ROWS, SIZE))
            told.append((type(caught.value), str(caught.value)[:85]))
    return set(told)


def test_an_argument_written_before_the_pass_raises():
    part = Part(0.0)

    def program(x):
        y = x * 2
        h = checkpoint(part, y, use_reentrant=False)
        y.add_(1)
        h.sum().backward()

    [(kind, text)] = errors_of(program)
    assert kind is RuntimeError
    assert "modified by an inplace" in text


@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_inference_tensor_raises_as_eager(is_compiled):
    def program(x):
        return again(torch.sin, x)

    compiled = mica.compile(program) if is_compiled else program
    with torch.inference_mode():
        x = torch.ones(3)
        for _ in range(3):
            assert torch.equal(compiled(x), torch.sin(x))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot be saved for backward"):
            compiled(x)


def test_another_computation_raises():
    part, other = Part(0.0), Part(0.0)

    def program(x):
        first = True

        def run(y):
            nonlocal first
            if first:
                first = False
                return part(y)
            return other.inner(y)

        checkpoint(run, x, use_reentrant=False).sum().backward()

    [(kind, _)] = errors_of(program)
    assert kind is CheckpointError


def test_without_gradients_nothing_is_kept_or_drawn_again():
    part = Part(0.5).train()
    compiled = mica.compile(lambda x: plainly(part, x))
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(ROWS, SIZE)
            state = torch.get_rng_state()
            got = compiled(x)
            torch.set_rng_state(state)
            torch.testing.assert_close(got, plainly(part, x))
    assert mica.explain(compiled).hits == 2


def test_a_pass_that_comes_later_is_eagers():
    part = Part(0.0)
    compiled = mica.compile(lambda x: plainly(part, x))
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(ROWS, SIZE)
        gradients = []
        for call in (compiled, lambda x: plainly(part, x)):
            part.zero_grad()
            call(x).square().sum().backward()
            gradients.append(part.inner.weight.grad)
        torch.testing.assert_close(*gradients)


def test_eager_calls_are_torchs_own():
    assert "mica" not in checkpoint.__module__
    x = torch.randn(ROWS, SIZE, requires_grad=True)
    checkpoint(Part(0.0), x, use_reentrant=False).sum().backward()
    assert x.grad is not None


def test_what_torchs_own_walks_is_walked():
    class Pair(collections.namedtuple("Pair", "first second")):
        def __iter__(self):
            return iter([1.0])

    compiled = mica.compile(lambda x: again(torch.sin, x))
    for _ in range(3):
        with pytest.raises(TypeError, match="second"):
            compiled(Pair(torch.ones(3), []))
