"""The stance "check": an eager run beside every hit."""

from __future__ import annotations

import contextlib
import io
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CellType
from typing import Any

import torch

from mica import _mica
from mica.checking.difference import first_difference
from mica.checking.scene import ABSENT, Scene
from mica.errors import CheckError

# How far floats may differ; None for what their dtype suggests.
relative_tolerance: float | None = None


def check(
    compiled: _mica.Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Answers a call under the stance "check".

    Args:
      compiled: What is called.
      args: The arguments by position.
      kwargs: Those by name.
    Returns:
      What the call returns: of a hit, what eager returned.
    Raises:
      CheckError: The record did something else than eager.
    """
    candidates = compiled._mica_touched(*args, **kwargs)
    if not candidates:
        return compiled._mica_call(*args, **kwargs)
    touched = _together(candidates)

    def picture(
        result: Any = ABSENT, calls: Any = ABSENT, before: Scene | None = None
    ) -> Scene:
        drawn = None
        if before is not None:
            drawn = _Generators(touched["generators"])
        return Scene(
            _roots(compiled, args, kwargs, touched, result, calls, drawn),
            before,
        )

    before = picture()
    undo = _undoing(touched)
    served = compiled._mica_rehearse(*args, **kwargs)
    if served is None:
        return compiled._mica_call(*args, **kwargs)
    hit = picture(*served, before)
    undo(before)
    own, own_calls, text = _run_eagerly(compiled, args, kwargs, touched)
    eager = picture(own, own_calls, before)
    found = first_difference(hit, eager, before, relative_tolerance)
    if not found and text:
        found = f"output: the record prints nothing, eager {text[:60]!r}"
    if found:
        raise _returning(own, f"{_name_of(compiled)}: {found}")
    return own


def _undoing(touched: Mapping[str, Any]) -> Callable[[Scene], None]:
    """What puts back items, a picture, and generators as they are now."""
    written = touched["written"]
    items = [_get_item(holder, key) for _, holder, key in written]
    generators = _Generators(touched["generators"])

    def undo(before: Scene) -> None:
        for (_, holder, key), item in zip(written, items, strict=True):
            _put_item(holder, key, item)
        before.restore()
        generators.restore()

    return undo


def _run_eagerly(
    compiled: _mica.Compiled,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    touched: Mapping[str, Any],
) -> tuple[Any, list[Any], str]:
    """As `_run`, for a call that a record has served.

    Raises:
      CheckError: Eager raises, or its calls outside aren't known.
    """
    try:
        own, calls, text = _run(compiled, args, kwargs, touched["calls"])
    except Exception as error:
        told = CheckError(
            f"{_name_of(compiled)}: eager raises {type(error).__name__}, a "
            "record returns"
        )
        told._mica_raised = error
        raise told from error
    if isinstance(calls, str):
        raise _returning(
            own, f"{_name_of(compiled)}: eager's calls aren't known: {calls}"
        )
    return own, calls, text


def _returning(own: Any, text: str) -> CheckError:
    error = CheckError(text)
    error._mica_returned = own
    return error


def _name_of(compiled: _mica.Compiled) -> str:
    inner = compiled.__wrapped__
    return getattr(inner, "__qualname__", None) or type(inner).__qualname__


def _together(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What any of some records may touch."""
    first, *others = candidates
    return {
        key: any([value, *(other[key] for other in others)])
        if isinstance(value, bool)
        else [*value, *(item for other in others for item in other[key])]
        for key, value in first.items()
    }


def _roots(
    compiled: _mica.Compiled,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    touched: Mapping[str, Any],
    result: Any = ABSENT,
    calls: Any = ABSENT,
    generators: _Generators | None = None,
) -> list[tuple[str, Any]]:
    """Where a picture of all that the program can reach begins."""
    roots = [("result", result)]
    roots += [(f"argument {i}", arg) for i, arg in enumerate(args)]
    roots += [(f"argument {name}", arg) for name, arg in kwargs.items()]
    roots += [
        (path, _get_item(holder, key))
        for path, holder, key in touched["written"]
    ]
    roots += [("a container", container) for container in touched["containers"]]
    title = getattr(compiled.__wrapped__, "__name__", "the module")
    roots.append((title, compiled.__wrapped__))
    states = [s for s in touched["states"] if s is not None]
    roots += [(f"state {i}", state) for i, state in enumerate(states)]
    roots += [(f"leaf {i}", leaf) for i, leaf in enumerate(touched["leaves"])]
    if isinstance(calls, list):
        # The last argument of a warning is a registry, which filters renew.
        parts = [
            [path, *(given[:-1] if path == "warnings.warn" else given), names]
            for _, given, names, path in calls
        ]
        roots.append(("calls outside", parts))
    if generators is not None:
        roots += generators.states()
    return roots


def _get_item(holder: dict[Any, Any] | CellType, key: Any) -> Any:
    """An item of a dict; or what a cell holds, which has no keys."""
    if isinstance(holder, dict):
        return holder.get(key, ABSENT)
    try:
        return holder.cell_contents
    except ValueError:
        return ABSENT


def _put_item(holder: dict[Any, Any] | CellType, key: Any, item: Any) -> None:
    if _get_item(holder, key) is item:
        return
    if isinstance(holder, dict):
        if item is ABSENT:
            holder.pop(key, None)
        else:
            holder[key] = item
    elif item is ABSENT:
        del holder.cell_contents
    else:
        holder.cell_contents = item


def _run(
    compiled: _mica.Compiled,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    has_calls: bool,
) -> tuple[Any, Any, str]:
    """The eager run: its result, its calls outside, and what it prints.

    The latter is known only of a run that should make no calls.
    """
    if has_calls:
        own, calls = compiled._mica_watch(*args, **kwargs)
        return own, calls, ""
    with _printed() as text:
        own = compiled.__wrapped__(*args, **kwargs)
    return own, [], "".join(text)


@contextlib.contextmanager
def _printed() -> Iterator[list[str]]:
    """Notes what goes to standard output, and passes it on."""
    text: list[str] = []
    out = sys.stdout

    class Tee(io.TextIOBase):
        def write(self, part: str) -> int:
            text.append(part)
            return out.write(part)

        def flush(self) -> None:
            out.flush()

    with contextlib.redirect_stdout(Tee()):
        yield text


class _Generators:
    """The states of random generators: the global ones, and `others`."""

    def __init__(self, others: Sequence[Any]) -> None:
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        self._numpy: Any = sys.modules.get("numpy")
        if self._numpy is not None:
            self._numpy_state = self._numpy.random.get_state(legacy=False)
        self._others = [(other, _state_of(other)) for other in others]

    def states(self) -> list[tuple[str, Any]]:
        states: list[tuple[str, Any]] = [
            ("torch's generator", self._torch.numpy().tobytes()),
            ("random's generator", repr(self._python)),
        ]
        if self._numpy is not None:
            states.append(("numpy's generator", _as_bytes(self._numpy_state)))
        states += [
            (f"generator {i}", _as_bytes(state))
            for i, (_, state) in enumerate(self._others)
        ]
        return states

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        if self._numpy is not None:
            self._numpy.random.set_state(self._numpy_state)
        for other, state in self._others:
            _set_state_of(other, state)


def _state_of(generator: Any) -> Any:
    """The whole state of a random.Random, a RandomState or a Generator."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state(legacy=False)


def _set_state_of(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _as_bytes(state: Any) -> bytes:
    """A state to be compared: its text may leave numbers out."""
    return pickle.dumps(state)
