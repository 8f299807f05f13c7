"""The Program that a call runs, with its state's tensors."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from mica import _mica
from mica.compile import compile as _compile
from mica.errors import CaptureError
from mica.programs.described import constants, new_names, program_of
from mica.programs.program import Program

_Made = TypeVar("_Made")
# A training step's second call may differ from its first, which made the
# optimizer's state, and its third from its second.
_MAX_CALLS = 4


def capture(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    modules: Mapping[str, Any] | None = None,
) -> Program:
    """The Program that `fn` runs for `args`.

    If `fn` is compiled and has a record that fits `args`, that is taken and
    nothing runs. Else `fn` is called with `args`, several times if it changes
    its state so that a record doesn't fit the next call: for a training step
    these are real steps.

    The Program's variables are the tensors that `fn` itself uses, so that
    running it, as by `mica.Executor`, trains the model. It returns what `fn`
    does, without the gradients that a training step leaves in its leaves.

    Args:
      fn: A function, a method, a module, or what `mica.compile` made of one.
      args: The positional arguments of the call: tensors, numbers, texts and
        tuples, lists and dicts of them. Their tensors are fed at each run, by
        the names of `Program.inputs`.
      kwargs: The arguments by keyword.
      modules: As for `mica.export`.
    Returns:
      The Program with its tensors.
    Raises:
      CaptureError: The call can't be captured as one graph; says why.
      NotImplementedError: The program's way depends on tensors' values.
    """
    record = record_of(fn, tuple(args), dict(kwargs or {}), "mica.capture")
    native = program_of(record, "mica.capture")
    native = native.rename_variables(
        new_names(
            native,
            record["states"],
            modules_of(fn) if modules is None else modules,
            "mica.capture",
        )
    )
    tensors = list(record["states"]) + constants(native, record)
    names = [name for name, _ in native.variables]
    return Program(native, dict(zip(names, tensors, strict=True)))


def compiled_anew(fn: Callable[..., Any]) -> Any:
    """Compiles a callable, or again what is in a compiled one."""
    return _compile(fn.__wrapped__ if isinstance(fn, _mica.Compiled) else fn)


@contextlib.contextmanager
def exporting(says_so: bool) -> Iterator[None]:
    """Has a program leave out what nothing but torch could run.

    Args:
      says_so: `torch.compiler.is_exporting()` is true: models leave out ways
        that hold for the values at hand alone, too. Optimizers can't be
        captured then.
    """
    was_exporting = torch.compiler._is_exporting_flag
    had_fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.compiler._is_exporting_flag = says_so or was_exporting
    # Whole layers as one operator, which has no kernel outside ATen.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.compiler._is_exporting_flag = was_exporting
        torch.backends.mha.set_fastpath_enabled(had_fastpath)


def in_either_way(make: Callable[[], _Made]) -> _Made:
    """What `make` gives where a program is exported as it is.

    Or, if that fails, where it is told that it is exported.
    """
    try:
        with exporting(says_so=False):
            return make()
    except (CaptureError, NotImplementedError) as error:
        first = error
    try:
        with exporting(says_so=True):
            return make()
    except (CaptureError, NotImplementedError):
        raise first from None


def record_of(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    who: str,
    reset: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """The record that fits a call, made by calling if there is none.

    Args:
      fn: As for `capture`.
      args: The positional arguments.
      kwargs: The arguments by keyword.
      who: Whose errors these are.
      reset: Called before each call, and at the end.
    """
    compiled: Any = fn if isinstance(fn, _mica.Compiled) else _compile(fn)
    with _casts_of_its_own():
        for _ in range(_MAX_CALLS):
            reset()
            record: dict[str, Any] | None = compiled._mica_describe(
                *args, **kwargs
            )
            if record is not None:
                return record
            compiled(*args, **kwargs)
    report = compiled._mica_report()
    reasons = [reason[0] for reason in report["refusals"]]
    reasons += [reason[0] for reason in report["misses"]]
    raise CaptureError(
        f"{who}: {report['name']} is not one graph: "
        + ("; ".join(reasons) or "no record fits the call")
    )


def settled_record(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    who: str,
    reset: Callable[[], object],
) -> tuple[Any, dict[str, Any]]:
    """What was compiled anew, and its record; arguments as for `record_of`.

    Once more if it has other kinds of state than at its first call: a cache
    that was made then is state of a new record.
    """
    compiled = compiled_anew(fn)
    record = record_of(compiled, args, kwargs, who, reset)
    if record["slots"]:
        compiled = compiled_anew(fn)
        record = record_of(compiled, args, kwargs, who, reset)
    return compiled, record


@contextlib.contextmanager
def _casts_of_its_own() -> Iterator[None]:
    """Has a Program cast weights itself, though autocast would keep that."""
    is_open = torch.autocast_increment_nesting() > 1
    torch.autocast_decrement_nesting()
    was_on = torch.is_autocast_cache_enabled()
    if is_open or torch.is_autocast_enabled("cpu"):
        torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_on)


def modules_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The modules and optimizers that a callable has at hand, by name."""
    fn = getattr(fn, "__wrapped__", fn)
    if isinstance(fn, torch.nn.Module):
        return {"": fn}
    function = inspect.unwrap(getattr(fn, "__func__", fn))
    if not inspect.isfunction(function):
        return {}
    names = inspect.getclosurevars(function)
    return {
        name: value
        for name, value in {**names.globals, **names.nonlocals}.items()
        if isinstance(value, (torch.nn.Module, torch.optim.Optimizer))
    }
