"""Texts that `str.format` and `%` make of tensors and numbers."""

# ruff: noqa: UP031

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import Step, check, drawn, with_grad, world
from torch import Tensor

_grad = pytest.fixture(autouse=True)(with_grad)

Body = Callable[[Any, Tensor], Any]


def of_a_loss(w: Any, x: Tensor) -> Any:
    return "step {} loss {:.3f}".format(w.step, x.sum())  # noqa: UP032


def of_one_that_requires_grad(w: Any, x: Tensor) -> Any:
    loss = (w.weight * x).sum()
    return "{0:6.2f}|{0}|{1}|{{}}".format(loss, w.step), loss  # noqa: UP032


def by_names(w: Any, x: Tensor) -> Any:
    form = "[{at}/{}] {loss:>9.4f} {acc:5.1f}%"
    return form.format(100, at=w.step, loss=x.mean(), acc=x[0, 0] * 100)


def by_percent(w: Any, x: Tensor) -> Any:
    norm = (w.weight * x).norm()
    text = "%s step %d loss %.3f of %5.2e%%" % ("run", w.step, norm, norm)
    return text, "%g" % x.max(), "%3d/%d" % (x.argmax(), w.step)


def of_ints_and_bools(w: Any, x: Tensor) -> Any:
    best = x.argmax()
    return "{:3d} {} {} {}".format(best, best, best > 3, w.step)  # noqa: UP032


def of_a_list(w: Any, x: Tensor) -> Any:
    w.runs[0] += 1
    w.logged["rate"] *= 0.5
    return "run {}: {} {}".format(w.runs, w.logged, x.sum())  # noqa: UP032


def of_a_form_that_is_kept(w: Any, x: Tensor) -> Any:
    return w.form.format(x.sum(), w.step)


BODIES = [
    of_a_loss,
    of_one_that_requires_grad,
    by_names,
    by_percent,
    of_ints_and_bools,
    of_a_list,
    of_a_form_that_is_kept,
]


def state() -> dict[str, Any]:
    return {
        "step": 0,
        "runs": [0],
        "logged": {"rate": 1.0, "kind": "sgd"},
        "form": "{:.4e} at {}",
        "weight": torch.ones(4, requires_grad=True),
    }


def step_of(seed: int) -> Step:
    def step(w: Any, program: Any) -> Any:
        w.step += 1
        try:
            return program(drawn(seed)), w.runs, w.logged
        except (IndexError, TypeError, ValueError) as error:
            return str(error)

    return step


@pytest.mark.parametrize("body", BODIES)
def test_one_record_serves_all_numbers(body: Body) -> None:
    assert check(world(body, **state()), *map(step_of, range(10))) >= 6


@pytest.mark.parametrize(
    "form",
    ["{!r}", "{!s:>20}", "{.shape}", "{0.dtype}", "{0[0]}", "{:{}}", "{:d}"],
)
def test_other_fields_show_what_eager_shows(form: str) -> None:
    def body(w: Any, x: Tensor) -> Any:
        return form.format(x.sum(), w.step), form.format(x[0], 8)

    check(world(body, **state()), *map(step_of, range(6)))


def test_other_tensors_are_shown_as_they_are() -> None:
    def body(w: Any, x: Tensor) -> Any:
        shown = "{} {} {}".format(x, torch.nn.Parameter(x.sum()), w.step)  # noqa: UP032
        return shown, "{}".format(x[:, :1].sum(0))  # noqa: UP032

    check(world(body, **state()), *map(step_of, range(6)))


@pytest.mark.parametrize(
    "form", ["%s", "%r", "%d", "%10.3s", "%x", "%c", "%.3f %f", "%(a)f", "%*f"]
)
def test_other_conversions_show_what_eager_shows(form: str) -> None:
    def body(w: Any, x: Tensor) -> Any:
        return form % x.sum(), w.step

    def of_a_tuple(w: Any, x: Tensor) -> Any:
        return "%d %s" % (w.step, form % (x.argmax(),))

    check(world(body, **state()), *map(step_of, range(6)))
    check(world(of_a_tuple, **state()), *map(step_of, range(6)))


def test_a_tensor_is_made_of_numbers_in_a_deque() -> None:
    def body(w: Any, x: Tensor) -> Any:
        total, returns = 0.0, deque()
        for reward in w.rewards[::-1]:
            total = reward + 0.9 * total
            returns.appendleft(total)
        made = torch.tensor(returns)
        return x * (made - made.mean()) / (made.std() + 1e-7)

    def with_rewards(seed: int) -> Step:
        def step(w: Any, program: Any) -> Any:
            w.rewards[:] = [0.1 * seed + i for i in range(4)]
            return program(drawn(seed))

        return step

    assert check(world(body, rewards=[]), *map(with_rewards, range(8))) >= 5
