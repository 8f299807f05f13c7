"""Ways to call a program: where from, and under what.

A style wraps the calls of both twins, so that both see the same surroundings.
"""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode as _DispatchMode

from mica import errors

Run = Callable[[], None]


class _Unused(UserWarning):
    """What builds of before MicaWarning never warn."""


MicaWarning: type[Warning] = getattr(errors, "MicaWarning", _Unused)
# They have no types.
forward_ad: Any = _forward_ad
TorchDispatchMode: Any = _DispatchMode


class _Functions(TorchFunctionMode):
    """Adds one to what torch.relu gives."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        return found + 1 if func is torch.relu else found


class _Dispatches(TorchDispatchMode):  # type: ignore[misc]
    """Turns what sin gives."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        return -found if func is torch.ops.aten.sin.default else found


@contextlib.contextmanager
def _precision() -> Iterator[None]:
    with decimal.localcontext() as context:
        context.prec = 3
        yield


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", MicaWarning)
        yield


@contextlib.contextmanager
def _ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


_CONTEXTS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "enable_grad": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "dual level": forward_ad.dual_level,
    "dual argument": forward_ad.dual_level,
    "precision": _precision,
    "warnings are errors": _errors,
    "warnings are ignored": _ignored,
    "function mode": _Functions,
    "dispatch mode": _Dispatches,
    "saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(
        lambda v: v * 1, lambda v: v
    ),
    "no subclasses": torch._C.DisableTorchFunctionSubclass,
    "mutable views": lambda: (
        torch.autograd.grad_mode.set_multithreading_enabled(False)
    ),
    "device": lambda: torch.device("cpu"),
    "double": lambda: _default_dtype(torch.float64),
}


def _in_thread(run: Run) -> None:
    failed: list[BaseException] = []

    def body() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body, name="another")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def _in_except(run: Run) -> None:
    try:
        raise KeyError("outside")
    except KeyError:
        run()


def _in_finally(run: Run) -> None:
    try:
        try:
            raise KeyError("outside")
        finally:
            run()
    except KeyError:
        pass


def _in_generator(run: Run) -> None:
    def items() -> Iterator[None]:
        run()
        yield

    list(items())


def _in_context(run: Run) -> None:
    contextvars.copy_context().run(run)


def _in_new_context(run: Run) -> None:
    contextvars.Context().run(run)


_CALLERS: dict[str, Callable[[Run], None]] = {
    "thread": _in_thread,
    "except": _in_except,
    "finally": _in_finally,
    "generator": _in_generator,
    "context": _in_context,
    "new context": _in_new_context,
}
STYLES = [*_CALLERS, *_CONTEXTS]
# Words of programs that see how they are called.
STYLE_WORDS = {
    "thread": "threading LOCAL VAR ContextVar local decimal",
    "except": "exc_info exception",
    "finally": "exc_info exception",
    "context": "VAR ContextVar contextvars decimal",
    "new context": "VAR ContextVar contextvars decimal",
    "no_grad": "is_grad_enabled grad requires_grad P",
    "inference": "is_inference is_inference_mode_enabled",
    "enable_grad": "is_grad_enabled no_grad",
    "autocast": "mul matmul mm linear LIN",
    "anomaly": "backward grad",
    "precision": "decimal",
    "warnings are errors": "warnings",
    "warnings are ignored": "warnings",
    "function mode": "relu",
    "dispatch mode": "sin",
    "saved tensors": "backward grad",
    "double": "tensor ones get_default_dtype",
}


def run_in(style: str, run: Run) -> None:
    """Runs calls in the way that a style names."""
    if style in _CALLERS:
        _CALLERS[style](run)
    elif style in _CONTEXTS:
        with _CONTEXTS[style]():
            run()
    else:
        run()


def dress(style: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call in this style."""
    if style != "dual argument" or not isinstance(args[0], torch.Tensor):
        return args
    if not args[0].is_floating_point():
        return args
    tangent = torch.full_like(args[0], 2.0)
    return (forward_ad.make_dual(args[0].detach(), tangent), *args[1:])


def undress(style: str, result: Any) -> Any:
    """A result with what would be lost where the style ends."""
    if style != "dual argument":
        return result
    items = result if isinstance(result, (tuple, list)) else [result]
    tangents = [
        forward_ad.unpack_dual(item).tangent
        for item in items
        if type(item) is torch.Tensor and item.is_floating_point()
    ]
    return result, tangents
