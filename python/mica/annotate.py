"""What a user knows of a callable that Mica can't look into."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Literal, TypeVar, cast, overload

from mica import _mica

_F = TypeVar("_F", bound=Callable[..., Any])

Kind = Literal["pure", "host", "number", "ends_graph"]


@overload
def annotate(
    fn: _F,
    kind: Kind = ...,
    *,
    reads: Sequence[int] = ...,
    changes: Sequence[int] = ...,
) -> _F: ...
@overload
def annotate(
    fn: None = ...,
    kind: Kind = ...,
    *,
    reads: Sequence[int] = ...,
    changes: Sequence[int] = ...,
) -> Callable[[_F], _F]: ...
def annotate(
    fn: _F | None = None,
    kind: Kind = "pure",
    *,
    reads: Sequence[int] = (),
    changes: Sequence[int] = (),
) -> _F | Callable[[_F], _F]:
    """Declares what calls of `fn` do, in runs watched from now on.

    Functions in C need it, unless Mica knows them: an unknown one is never
    taken for free of effects. For a Python function, which would be followed
    as it runs, it says not to look into it; what operators of torch do in it
    is recorded all the same. Mica takes the word for it.

    Usable as a decorator: `@mica.annotate(kind="host")`.

    Args:
      fn: A function, in Python or in C, a class or a callable object. Of a
        method, the class's function.
      kind: "pure": what it returns follows from its arguments, and it has no
        effect. "host": it does something outside of the program, such as
        logging, and nobody uses what it returns; each hit calls it again, in
        order with other such calls, with constants, floats, texts made of them
        and tensors. As it may read and change anything, it ends the graph where
        the program does more than return after it; a function in C may be
        called anywhere, if it is passed no tensor and no container.
        "number": it asks the world outside for a float or an int, which may
        be another each time, and asking changes nothing. Each hit asks again,
        before the run, in order with what the program draws; the number is
        followed as one that varies. It gets constants and objects that were
        there before the call, and may not depend on what the program changes
        before it asks. It may be asked more often than the program asks:
        where an answer leads the program another way than a record's.
        "ends_graph": what calls it isn't one graph.
      reads: Positions of tensors whose values it reads past torch, the object
        of a method first. They become guarded: a hit needs the same numbers.
        64 at most each.
      changes: Positions of arguments that it changes in place, past torch. A
        change of what was there before the call is refused, and so is any of
        a tensor's or an array's memory.
    Returns:
      `fn`.
    Raises:
      TypeError: `fn` can't be called, or is a bound method.
      ValueError: There is no such kind.
    """
    if fn is None:
        return lambda inner: annotate(inner, kind, reads=reads, changes=changes)
    if not callable(fn):
        raise TypeError(f"mica.annotate: wants a callable, got {type(fn)}")
    _annotate(
        fn,
        kind,
        list(reads),
        list(changes),
        f"calls {name_of(fn)}, which is annotated to end the graph",
    )
    return fn


@overload
def disable(fn: _F) -> _F: ...
@overload
def disable(fn: None = ...) -> Disabled: ...
def disable(fn: _F | None = None) -> _F | Disabled:
    """Keeps a function out of graphs.

    A program that calls it isn't captured as one graph: it leaves the graph
    there, or runs eagerly if it can't. Compiled callables that `fn` calls run
    eagerly, too.

    Args:
      fn: The function; without it, `with mica.disable():` does the same for
        the code in the block, and for compiled callables in it.
    Returns:
      A function that does what `fn` does; or the context manager.
    Raises:
      TypeError: `fn` can't be called.
    """
    if fn is None:
        return Disabled()
    if not callable(fn):
        raise TypeError(f"mica.disable: wants a callable, got {type(fn)}")
    inner: Callable[..., Any] = fn
    if isinstance(fn, _mica.Compiled):
        inner = fn.__wrapped__

    @functools.wraps(inner)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        with Disabled():
            return inner(*args, **kwargs)

    _annotate(
        disabled,
        "ends_graph",
        [],
        [],
        f"calls {name_of(inner)}, which mica.disable keeps out of graphs",
    )
    return cast(_F, disabled)


class Disabled:
    """The context manager that `mica.disable()` gives."""

    def __enter__(self) -> None:
        _mica.enter_disabled()

    def __exit__(self, *error: object) -> None:
        _mica.leave_disabled()


def name_of(fn: Callable[..., Any]) -> str:
    """A callable's name, for messages."""
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))


def _annotate(
    fn: Callable[..., Any],
    kind: str,
    reads: list[int],
    changes: list[int],
    reason: str,
) -> None:
    _mica.annotate(fn, kind, reads, changes, reason)
    if isinstance(fn, FunctionType):
        # Another function may be at the address of a dead one.
        end = weakref.finalize(fn, _mica.drop_annotation, id(fn))
        end.atexit = False


def annotate_own() -> None:
    """Tells why Mica's own switches end a graph."""
    for switch in (_mica.enter_disabled, _mica.leave_disabled):
        _annotate(
            switch, "ends_graph", [], [], "enters a block of mica.disable()"
        )
    _annotate(
        _mica.set_stance, "ends_graph", [], [], "changes the stance of Mica"
    )
