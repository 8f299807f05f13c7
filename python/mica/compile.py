"""Compiles PyTorch programs by watching one real run of each."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from mica import _mica
from mica.errors import CaptureError
from mica.options import default_num_streams, default_num_threads, default_queue

_F = TypeVar("_F", bound=Callable[..., Any])

# Of a torch.fx.GraphModule and its example inputs.
Backend = Callable[..., Callable[..., Any]]

_MAX_RECORDS = 16

_compiled: weakref.WeakSet[_mica.Compiled] = weakref.WeakSet()


@overload
def compile(
    fn: _F,
    *,
    frozen: bool = ...,
    fullgraph: bool = ...,
    backend: Backend | None = ...,
    exact: bool = ...,
) -> _F: ...
@overload
def compile(
    fn: None = ...,
    *,
    frozen: bool = ...,
    fullgraph: bool = ...,
    backend: Backend | None = ...,
    exact: bool = ...,
) -> Callable[[_F], _F]: ...
def compile(
    fn: _F | None = None,
    *,
    frozen: bool = False,
    fullgraph: bool = False,
    backend: Backend | None = None,
    exact: bool = False,
) -> _F | Callable[[_F], _F]:
    """Makes a callable that runs `fn` as a static graph.

    The first call runs `fn` as it is and watches: what it computes becomes a
    Program, what it depends on becomes guards. A later call for which the
    guards hold runs the Program; any other call runs `fn` again and makes a
    further record. What can't be proven the same at a later call isn't
    recorded: it runs eagerly, and `explain` tells why. Results are new at
    each call; exceptions are those of `fn`.

    Usable as a decorator, with or without arguments, also of methods. A
    compiled module passes its module's attributes on; `eval()`, `to()` and
    their like return the compiled module.

    Args:
      fn: A function, a method or a torch.nn.Module.
      frozen: The parameters and buffers keep their values, so that packed and
        folded copies of them may be kept. Writes that torch's version counters
        see, those of batch norm to its running statistics, steps of torch's
        fused optimizers, and parameters that are moved, are noticed and make
        new copies. Writes through `Tensor.data`, or through numpy, may go
        unnoticed: that there are none is the caller's promise.
      fullgraph: Raise instead of running eagerly for good.
      exact: Every operator that computes runs ATen's own kernel, so that
        results are eager's bit for bit. Mica's kernels round elsewhere; a
        network that makes much of little differences shows it.
      backend: Another compiler, by torch.compile's convention:
        `backend(module, example_inputs)` takes a torch.fx.GraphModule of ATen
        calls, functional and below autograd, and gives a callable of such
        inputs that returns what the module returns. Mica keeps to itself the
        guards, and all effects: it writes what changes in place. If the
        backend raises, that is a reason to run eagerly.
    Returns:
      A callable with the arguments and results of `fn`.
    Raises:
      CaptureError: From the returned callable, with `fullgraph`, when a call
        can't be captured as one graph. The call has run by then.
      TypeError: `fn` or `backend` can't be called.
      ValueError: `frozen` with a `backend`: that is Mica's own.
    """
    if fn is None:
        return lambda inner: compile(
            inner,
            frozen=frozen,
            fullgraph=fullgraph,
            exact=exact,
            backend=backend,
        )
    if backend is not None and frozen:
        raise ValueError("mica.compile: frozen is no option of a backend")
    if backend is not None and not callable(backend):
        raise TypeError(f"mica.compile: wants a backend, got {backend!r}")
    if not callable(fn):
        raise TypeError(f"mica.compile: wants a callable, got {type(fn)}")
    if isinstance(fn, _mica.Compiled):
        fn = cast(_F, fn.__wrapped__)
    compiled = _mica.Compiled(
        fn,
        CaptureError,
        frozen,
        fullgraph,
        exact,
        os.environ.get("MICA_DISABLE", "0") not in ("", "0"),
        default_num_threads(),
        default_num_streams(),
        default_queue(),
        _MAX_RECORDS,
        os.environ.get("MICA_LOGS", ""),
        None if backend is None else _runner_maker(backend),
    )
    _compiled.add(compiled)
    return cast(_F, compiled)


def _runner_maker(backend: Backend) -> Callable[..., Any]:
    from mica import outside

    return functools.partial(outside.make_runner, backend)


def reset(compiled: Callable[..., Any] | None = None) -> None:
    """Makes compiled callables forget their records, refusals and statistics.

    Args:
      compiled: What `compile` gave; without it, all that still exist.
    Raises:
      TypeError: It is something else.
    """
    if compiled is None:
        for one in list(_compiled):
            one._mica_reset()
        return
    if not isinstance(compiled, _mica.Compiled):
        raise TypeError(
            f"mica.reset: wants a compiled callable, got {type(compiled)}"
        )
    compiled._mica_reset()
