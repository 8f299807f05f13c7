"""Runs a case's calls, eager and compiled, and compares them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch

import mica
from size_fuzzing.case import Call, Case
from size_fuzzing.compare import Difference, same, shared_with, tensors_of
from size_fuzzing.worlds import World

_NEAR = 1e-4
_NEAR_GRADIENT = 1e-3


@dataclasses.dataclass
class Outcome:
    """What became of a case.

    Attributes:
      calls: That were made.
      hits: Of them, served by a record.
      captures: Watched runs that a record was tried of.
      refused: Calls that ran eagerly.
      raised: Calls that raised.
      differs: Where and how; empty if nowhere.
      at: The call that differs.
      error: Why nothing could be run.
    """

    calls: int = 0
    hits: int = 0
    captures: int = 0
    refused: int = 0
    raised: int = 0
    differs: str = ""
    at: int = -1
    error: str = ""


@dataclasses.dataclass
class Gave:
    """What one twin gave."""

    result: Any = None
    error: str = ""
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    gradients: list[Any] = dataclasses.field(default_factory=list)
    shared: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    drawn: Any = None


def _loss(result: Any) -> torch.Tensor | None:
    total: torch.Tensor | None = None
    for one in tensors_of(result):
        if not one.requires_grad:
            continue
        weights = torch.arange(one.numel(), dtype=one.dtype).cos()
        part = (one * weights.reshape(one.shape)).sum()
        total = part if total is None else total + part
    return total


class Twin:
    """One world, and how its program is called."""

    def __init__(self, case: Case, compiles: bool, number: int) -> None:
        self._case = case
        self.world = World(case, number)
        self.fn: Any = self.world.program
        if compiles:
            exact = True if case.exact else None
            self.fn = mica.compile(self.fn, exact=exact)

    def call(self, call: Call, index: int) -> Gave:
        """One call, with a backward pass if the case trains outside."""
        gave = Gave()
        torch.default_generator.manual_seed(index)
        gave.args = self.world.arguments(call, index)
        args = list(gave.args.values())
        try:
            gave.result = self.fn(*args)
        except Exception as error:
            gave.error = type(error).__name__
            return gave
        gave.shared = shared_with(gave.result, args)
        if self._case.train == "outside":
            self._go_back(gave)
        leaves = [one for one in tensors_of(args) if one.is_leaf]
        gave.gradients += [one.grad for one in leaves]
        gave.gradients += [one.grad for one in self.world.parameters()]
        if self._case.train == "outside":
            for one in self.world.parameters():
                one.grad = None
        gave.drawn = torch.get_rng_state()
        return gave

    def _go_back(self, gave: Gave) -> None:
        loss = _loss(gave.result)
        if loss is None:
            return
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except Exception as error:
            gave.error = "backward: " + type(error).__name__


def _compare(case: Case, eager: Twin, other: Twin, a: Gave, b: Gave) -> None:
    near = 0.0 if case.exact else _NEAR
    near_gradient = 0.0 if case.exact else _NEAR_GRADIENT
    if a.error != b.error:
        raise Difference("error", f"eager {a.error!r}, mica {b.error!r}")
    same(a.result, b.result, "result", near)
    same(a.args, b.args, "arguments", near)
    same(a.gradients, b.gradients, "gradients", near_gradient)
    state = near_gradient if case.train else near
    same(eager.world.state(), other.world.state(), "world", state)
    if a.shared != b.shared:
        raise Difference("memory", f"eager {a.shared}, mica {b.shared}")
    if a.drawn is not None and not torch.equal(a.drawn, b.drawn):
        raise Difference("generator", "differs")


def run(case: Case, compiles: bool = True) -> Outcome:
    """Makes a case's calls up to the first that differs."""
    outcome = Outcome()
    try:
        eager, other = Twin(case, False, 1), Twin(case, compiles, 2)
    except Exception as error:
        outcome.error = repr(error)
        return outcome
    for index, call in enumerate(case.calls):
        try:
            one = eager.call(call, index)
        except Exception as error:
            outcome.error = repr(error)
            break
        if index == 0 and one.error:
            outcome.error = one.error
            break
        try:
            two = other.call(call, index)
            outcome.calls += 1
            outcome.raised += bool(one.error)
            _compare(case, eager, other, one, two)
        except Difference as found:
            outcome.differs, outcome.at = str(found), index
            break
        if one.error.startswith("backward"):
            break
    if compiles:
        told = mica.explain(other.fn)
        outcome.hits, outcome.captures = told.hits, told.captures
        outcome.refused = told.eager_calls
    return outcome


def kind_of(differs: str) -> str:
    """What sort of difference it is, to tell finds apart."""
    path = re.split(r"[\[: ]", differs)[0]
    if path == "error":
        return differs
    what = re.search(r": ([a-z_ ]+)", differs)
    return f"{path} {what[1].strip() if what else ''}"


def fixed(case: Case, at: int) -> Case:
    """The case with sizes that never vary, those of call `at`."""
    return dataclasses.replace(case, calls=[case.calls[at]] * 4)
