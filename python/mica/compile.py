"""Compiles PyTorch programs by watching one real run of each."""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast, overload

import torch

from mica import _mica, options
from mica.backends.outside import Backend, make_runner
from mica.errors import CaptureError
from mica.options import default_num_streams, default_num_threads, default_queue

_F = TypeVar("_F", bound=Callable[..., Any])

_MAX_RECORDS = 16

# By id: those of one module are equal.
_compiled: weakref.WeakValueDictionary[int, _mica.Compiled] = (
    weakref.WeakValueDictionary()
)

# Those that `keep_compiled` keeps alive; None while nobody asks.
_kept: list[_mica.Compiled] | None = None


@overload
def compile(
    fn: _F,
    *,
    frozen: bool = ...,
    offload: bool = ...,
    precision: str | None = ...,
    fullgraph: bool = ...,
    backend: Backend | None = ...,
    exact: bool | None = ...,
    dynamic: bool | None = ...,
) -> _F: ...
@overload
def compile(
    fn: None = ...,
    *,
    frozen: bool = ...,
    offload: bool = ...,
    precision: str | None = ...,
    fullgraph: bool = ...,
    backend: Backend | None = ...,
    exact: bool | None = ...,
    dynamic: bool | None = ...,
) -> Callable[[_F], _F]: ...
def compile(
    fn: _F | None = None,
    *,
    frozen: bool = False,
    offload: bool = False,
    precision: str | None = None,
    fullgraph: bool = False,
    backend: Backend | None = None,
    exact: bool | None = None,
    dynamic: bool | None = None,
) -> _F | Callable[[_F], _F]:
    """Makes a callable that runs `fn` as a static graph.

    The first call runs `fn` as it is and watches: what it computes becomes a
    Program, what it depends on becomes guards. A later call for which the
    guards hold runs the Program; any other call runs `fn` again and makes a
    further record. What can't be proven the same at a later call isn't
    recorded: it runs eagerly, and `explain` tells why. Results are new at
    each call; exceptions are those of `fn`.

    Usable as a decorator, with or without arguments, also of methods. Of a
    class of modules it compiles `forward`, in place, for all instances.

    A compiled module is an instance of the module's own class: state, hooks
    and attributes are shared with the module inside, under the same names.
    Copies, pickled ones too, are compiled anew.

    Args:
      fn: A function, a method, a torch.nn.Module or a class of them.
      frozen: The parameters and buffers keep their values, so that packed and
        folded copies of them may be kept. Writes that torch knows of make new
        copies; that there are none else (`.data`, numpy) is a promise.
      offload: With `frozen`: weights of which calls read packed copies alone
        move to a file after the first calls (docs/inference.md).
      precision: With `frozen`: "int8", "int8-weights" or "int4-weights" of
        products with weights, whose error `explain` tells (docs/precision.md).
      fullgraph: Raise instead of running eagerly for good.
      exact: If true, all that computes runs ATen's own kernels, for eager's
        bits; if false, nothing that needn't. By default a record's first hit
        compares the two: where results differ, ATen's stay (docs/capture.md).
      dynamic: If false, a graph holds for one size of each argument; else for
        all that two watched runs tell of (docs/sizes.md).
      backend: Another compiler, by torch.compile's convention:
        `backend(module, example_inputs)` takes a torch.fx.GraphModule of ATen
        calls, functional and below autograd, and gives a callable that returns
        what the module does, or raises to have calls run eagerly.
    Returns:
      A callable with the arguments and results of `fn`.
    Raises:
      CaptureError: From the returned callable, with `fullgraph`, when a call
        can't be captured as one graph. The call has run by then.
      TypeError: `fn` or `backend` can't be called.
      ValueError: Of these arguments one wants, or rules out, another.
    """
    chosen: dict[str, Any] = {"frozen": frozen, "offload": offload}
    chosen |= {"fullgraph": fullgraph, "backend": backend}
    chosen |= {"exact": exact, "dynamic": dynamic, "precision": precision}
    if fn is None:
        return lambda inner: cast(_F, _compile(inner, chosen))
    return cast(_F, _compile(fn, chosen))


def _compile(fn: Any, arguments: dict[str, Any]) -> Any:
    backend: Backend | None = arguments["backend"]
    if backend is not None and arguments["frozen"]:
        raise ValueError("mica.compile: frozen is no option of a backend")
    if arguments["offload"] and not arguments["frozen"]:
        raise ValueError("mica.compile: offload wants frozen=True")
    if arguments["precision"] is not None:
        if not arguments["frozen"]:
            raise ValueError("mica.compile: precision wants frozen=True")
        if arguments["exact"]:
            raise ValueError("mica.compile: precision isn't exact")
        if not isinstance(arguments["precision"], str):
            raise TypeError(
                "mica.compile: wants the name of a precision, got "
                f"{arguments['precision']!r}"
            )
        if not arguments["precision"]:
            raise ValueError("mica.compile: wants the name of a precision")
    if backend is not None and not callable(backend):
        raise TypeError(f"mica.compile: wants a backend, got {backend!r}")
    if not callable(fn):
        raise TypeError(f"mica.compile: wants a callable, got {type(fn)}")
    if isinstance(fn, _mica.Compiled):
        fn = fn.__wrapped__
    if isinstance(fn, type) and issubclass(fn, torch.nn.Module):
        inner = fn.forward
        if not isinstance(inner, (types.FunctionType, _mica.Compiled)):
            raise TypeError(f"mica.compile: {fn} has no forward to compile")
        fn.forward = _compile(inner, arguments)
        return fn
    compiled = _mica.make_compiled(
        fn,
        arguments,
        CaptureError,
        arguments["frozen"],
        options.get("offload_dir") if arguments["offload"] else "",
        arguments["precision"] or "",
        arguments["fullgraph"],
        bool(arguments["exact"]),
        arguments["exact"] is None,
        options.get("disable"),
        default_num_threads(),
        default_num_streams(),
        default_queue(),
        _MAX_RECORDS,
        arguments["dynamic"] is not False,
        options.get("capture_budget"),
        options.get("logs"),
        None if backend is None else functools.partial(make_runner, backend),
    )
    _compiled[id(compiled)] = compiled
    if _kept is not None:
        _kept.append(compiled)
    return compiled


@contextlib.contextmanager
def keep_compiled() -> Iterator[list[_mica.Compiled]]:
    """Keeps alive what is compiled in the block, for `mica explain`.

    Gives what was compiled so far, in order; it grows.
    """
    global _kept
    before, _kept = _kept, []
    try:
        yield _kept
    finally:
        _kept = before


def reset(compiled: Callable[..., Any] | None = None) -> None:
    """Makes compiled callables forget their records, refusals and statistics.

    Args:
      compiled: What `compile` gave; without it, all that still exist.
    Raises:
      TypeError: It is something else.
    """
    if compiled is None:
        for one in list(_compiled.values()):
            one._mica_reset()
        return
    if not isinstance(compiled, _mica.Compiled):
        raise TypeError(
            f"mica.reset: wants a compiled callable, got {type(compiled)}"
        )
    compiled._mica_reset()
