"""Tells what capture made of a program: `mica.explain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mica import _mica
from mica.compile import compile as _compile

if TYPE_CHECKING:
    from mica.explaining.explanation import Explanation as Explanation

__all__ = ["explain"]


def explain(fn: Callable[..., Any]) -> Any:
    """Tells what capture made, or makes, of a callable.

    `explain(compiled)` is an Explanation of the calls so far.
    `explain(fn)(*args)` calls `fn` once with `args` and explains that call;
    a `fn` that isn't compiled yet is compiled for it.

    Args:
      fn: A callable, compiled or not.
    Returns:
      An Explanation for a compiled callable, which can be called too; else
      a function of `fn`'s arguments that returns an Explanation.
    """
    # Late: a fifth of what `import mica` took, and few programs ask.
    from mica.explaining.of_callable import CallableExplanation, explanation_of

    if isinstance(fn, _mica.Compiled):
        return CallableExplanation.of(fn)

    def call(*args: Any, **kwargs: Any) -> Explanation:
        compiled = _compile(fn)
        compiled(*args, **kwargs)
        return explanation_of(compiled)

    return call
