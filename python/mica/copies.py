"""Copies of compiled callables: what is inside is copied, and compiled anew.

Records stay with the original. The extension calls these; mica/modules.py has
them as methods of compiled modules.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

from mica import _mica
from mica.compile import compile


def compile_alike(
    compiled: _mica.Compiled, fn: Callable[..., Any]
) -> Callable[..., Any]:
    """Compiles `fn` with the options of another compiled callable."""
    arguments: dict[str, Any] = compiled._mica_arguments or {}
    return compile(fn, **arguments)


def compile_again(
    fn: Callable[..., Any], arguments: dict[str, Any]
) -> Callable[..., Any]:
    """What a pickled compiled callable is made by."""
    return compile(fn, **arguments)


def reduce(
    compiled: _mica.Compiled, protocol: int = 0
) -> str | tuple[Any, ...]:
    """What pickle keeps: a decorated function's name, or what is inside."""
    del protocol
    inside = compiled.__wrapped__
    module = sys.modules.get(getattr(inside, "__module__", None) or "")
    name = getattr(inside, "__qualname__", "")
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is compiled:
        return str(name)
    return compile_again, (inside, compiled._mica_arguments or {})


def shallow(compiled: _mica.Compiled) -> Any:
    """Answers `copy.copy`."""
    return _of(compiled, copy.copy(compiled.__wrapped__))


def deep(compiled: _mica.Compiled, memo: dict[int, Any]) -> Any:
    """Answers `copy.deepcopy`."""
    return _of(compiled, copy.deepcopy(compiled.__wrapped__, memo))


def _of(compiled: _mica.Compiled, inside: Any) -> Any:
    if inside is compiled.__wrapped__:  # Functions are their own copies.
        return compiled
    return compile_alike(compiled, inside)
