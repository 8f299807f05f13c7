"""Runs a case: the same steps in an eager world and in a compiled one."""

from __future__ import annotations

import random
from typing import Any

import torch

import mica
import mica.modules
from guard_fuzzing.calls import dress, run_in, undress
from guard_fuzzing.case import Case, Step
from guard_fuzzing.compare import Difference, Twins
from guard_fuzzing.kinds import same_text
from guard_fuzzing.process import Process
from guard_fuzzing.worlds import (
    EAGERS,
    SERVEDS,
    Outcome,
    World,
    random_states,
    set_random_states,
    set_thread_state,
    thread_state,
)

# What Mica refuses in words where eager goes on (docs/capture.md).
_REFUSED = (
    "mica: create_graph=True goes back through a compiled callable",
    "mica: the backward pass runs under autocast",
)

# What swap_tensors() says of a tensor that something else refers to, which
# isn't compared: results of a hit keep no graph. And numpy of an array to which
# there are weak references, as records have, and torch of memory of which
# numpy() made an array in the run (docs/capture.md).
_REFERRED = (
    "Trying to resize storage that is not resizable",
    "cannot resize an array that references or is referenced",
    "Expected use_count",
    "It is not possible to get the gradient edge for a Tensor",
)

# A compiled module calls itself what its twin does.
mica.modules._repr = lambda module: repr(module.__wrapped__)

_MANY = 10000  # Elements.
_MOST = 1000.0  # An element: what is larger is not fed back.


class Abandoned(Exception):
    """The twins say nothing more.

    One ran out of stack, can't be made, or was refused something in words.
    """


class Trial:
    """Two twins that take the same steps.

    Args:
      case: The program; its steps are taken one by one, by take().
      process: What both share. The caller restores it afterwards.
      compiles: Otherwise both twins are eager.
    """

    def __init__(
        self, case: Case, process: Process, compiles: bool = True
    ) -> None:
        self.case, self._process = case, process
        self.calls = 0
        self.raised = 0
        self._is_last_left = False  # LAST is no argument of the next call.
        self._rounded = 0  # Calls of what was rounded by the one before.
        self._near = 1e-4  # What floats may differ by.
        self._draws = case.draws()
        try:
            self._start()
            self.eager = World(case, lambda fn: fn, EAGERS)
            self._start()
            self.served = World(
                case,
                lambda fn: (
                    mica.compile(fn, exact=case.exact) if compiles else fn
                ),
                SERVEDS,
            )
        except Exception as error:
            raise Abandoned(str(error)) from error
        self._eager_fn = self.eager.names["program"]
        self.compiled: Any = mica.compile(
            self.served.names["program"],
            exact=case.exact,
            frozen=case.frozen,
        )
        # After such a refusal, or a program that goes on by itself, results
        # are eager's in all the process.
        self.compiled._mica_reset()
        self._served_fn = (
            self.compiled if compiles else self.served.names["program"]
        )

    def _start(self) -> None:
        # torch.manual_seed() keeps a traceback for each device besides.
        torch.default_generator.manual_seed(1)
        random.seed(1)

    def take(self, step: Step) -> None:
        """Takes one step; raises Difference if the twins aren't twins then."""
        if step.kind == "process":
            self._process.change(step.text)
        elif step.kind == "world":
            self._change(step.text)
        else:
            self._call(step)

    def hits(self) -> int:
        """How many of the compiled program's calls a record served."""
        tell = getattr(self.compiled, "_mica_hits", None)
        hits: int = self.report()["hits"] if tell is None else tell()
        return hits

    def report(self) -> dict[str, Any]:
        """What became of the compiled program's calls."""
        found: dict[str, Any] = self.compiled._mica_report()
        return found

    def _change(self, text: str) -> None:
        before = random_states() if "rand" in text else None
        one = self.eager.change(text)
        if before:
            set_random_states(before)
        self._same_errors(one, self.served.change(text), "change")
        if one and "backward()" in text:
            self._same_gradients()

    def _same_gradients(self) -> None:
        """Ends where a pass that raised has accumulated other gradients."""
        try:
            Twins(self.case.exact, self._near).same(
                self.eager.own_names(), self.served.own_names(), "world"
            )
        except Difference as found:
            if found.path.endswith(".grad"):
                raise Abandoned(str(found)) from found
            raise

    def _call(self, step: Step) -> None:
        found: list[Outcome] = []
        # Half precision rounds by that much, and its gradients later on.
        if "autocast" in step.style:
            self._near = 2e-2

        def both() -> None:
            for world, fn in (
                (self.eager, self._eager_fn),
                (self.served, self._served_fn),
            ):
                found.append(self._outcome(world, fn, step, before))

        before = random_states() if self._draws else None
        try:
            run_in(step.style, both)
        except Exception as error:
            # What the surroundings do with it: both twins had their call.
            if len(found) != 2:
                raise Difference(
                    "call", f"{type(error).__name__}: {error}"
                ) from error
        self.calls += 1
        self.raised += bool(found[0].error)
        try:
            with torch._C.DisableTorchFunctionSubclass():
                self._compare(step.text, *found)
        except Difference:
            raise
        except Exception as error:
            raise Abandoned(repr(error)) from error

    def _outcome(
        self, world: World, fn: Any, step: Step, before: Any
    ) -> Outcome:
        if before is not None:
            set_random_states(before)
        thread = thread_state()
        try:
            text = step.text
            if self._is_last_left:
                text = text.replace("LAST", "T0.clone()")
            args, kwargs = world.arguments(text)
            args = dress(step.style, args)
        except Exception as error:
            return Outcome(error=f"arguments: {type(error).__name__}: {error}")
        outcome = world.call(fn, args, kwargs)
        outcome.left = thread_state()
        if outcome.left != thread:
            set_thread_state(thread)
        try:
            outcome.result = undress(step.style, outcome.result)
        except Exception as error:
            outcome.error += f"{type(error).__name__}: {error}"
        if before is not None:
            outcome.drawn = random_states()
        if not outcome.error:
            world.names["LAST"] = outcome.result
        return outcome

    def _same_errors(self, one: Outcome, other: Outcome, path: str) -> None:
        errors = one.error + other.error
        if "RecursionError" in errors:
            raise Abandoned(one.error)
        if any(refusal in other.error for refusal in _REFUSED):
            raise Abandoned(other.error)
        if any(text in errors for text in _REFERRED):
            raise Abandoned(errors)
        if not same_text(one.error, other.error, self.case.exact):
            ours, theirs = one.error[:200], other.error[:200]
            raise Difference(path, f"raises: eager {ours!r}, mica {theirs!r}")

    def _compare(self, text: str, one: Outcome, other: Outcome) -> None:
        self._same_errors(one, other, "call")
        twins = Twins(self.case.exact, self._near)
        twins.same(one.result, other.result, "result")
        twins.same(one.arguments, other.arguments, "arguments")
        ours, theirs = self.eager.own_names(), self.served.own_names()
        twins.same(ours, theirs, "world")
        twins.same(self.eager.names["LAST"], self.served.names["LAST"], "LAST")
        twins.same(self.eager.warned, self.served.warned, "warnings")
        twins.same(
            self.eager.out.getvalue(), self.served.out.getvalue(), "text"
        )
        if one.left != other.left:
            raise Difference("thread", f"eager {one.left}, mica {other.left}")
        if one.drawn is not None:
            same = torch.equal(one.drawn[0], other.drawn[0])
            same = same and one.drawn[1] == other.drawn[1]
            same = same and one.drawn[2] == other.drawn[2]
            if not same:
                raise Difference("random generators", "differ")
        # A program may ask whether it is a view, or make it, or what was
        # rounded in it, ever larger.
        last = self.eager.names["LAST"]
        self._rounded = self._rounded + 1 if twins.has_rounded else 0
        if "LAST" not in text:
            self._rounded = min(self._rounded, 1)
        self._is_last_left = (
            twins.has_lone_views or self._rounded > 1 or _is_large(last)
        )


def _is_large(value: Any, depth: int = 3) -> bool:
    """True for what a call that multiplies it might fill the memory with.

    Also for numbers so large that rounding is left of them where they cancel.
    """
    if isinstance(value, torch.Tensor):
        if value.numel() > _MANY:
            return True
        if not value.is_floating_point() or value.layout is not torch.strided:
            return False
        return bool((value.detach().abs() > _MOST).any())
    if isinstance(value, (tuple, list)):
        return len(value) > _MANY or (
            depth > 0 and any(_is_large(one, depth - 1) for one in value)
        )
    return isinstance(value, (str, bytes)) and len(value) > _MANY


def replay(
    case: Case, process: Process, compiles: bool = True
) -> Difference | None:
    """Takes a case's steps; returns the first difference."""
    try:
        trial = Trial(case, process, compiles)
        for step in case.steps:
            trial.take(step)
    except Difference as found:
        return found
    except Abandoned:
        return None
    finally:
        process.restore()
    return None
