"""How compiled callables take calls: `mica.stance`."""

from __future__ import annotations

from typing import Literal

from mica import _mica
from mica.checking import check

Stance = Literal["default", "force_eager", "fail_on_recompile", "check"]


class Change:
    """What `mica.stance` gives: as a context manager, it takes it back."""

    def __init__(self, stance: Stance, rtol: float | None) -> None:
        self._before = _mica.stance(), check.relative_tolerance
        _mica.set_stance(stance)
        check.relative_tolerance = rtol

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        stance, check.relative_tolerance = self._before
        _mica.set_stance(stance)


def stance(stance: Stance, *, rtol: float | None = None) -> Change:
    """Says how compiled callables take calls from now on, in all threads.

    | stance | a call |
    |---|---|
    | `default` | is served by a record, or watched and recorded |
    | `force_eager` | runs what is inside, as if nothing were compiled |
    | `fail_on_recompile` | is served; if no record serves it, it raises |
    | `check` | is served, run eagerly too, and compared |

    Under `check` a call that a record serves is first served, then undone: what
    the program can reach by its arguments, attributes, closures and globals is
    put back. Then it runs eagerly, for real, and that run's result and effects
    are the ones that stay: each effect happens once. Results, tensors written
    in place, gradients, attributes, containers, the state of random generators
    and calls into the world outside have to be the same, floats as near as
    `rtol` says.

    Args:
      stance: One of the above.
      rtol: Of `check`: how far floats may differ, relative to the largest of
        their tensor, or to 0.01 if that is less; by default 1e-4 for float32,
        1e-8 for float64, 1e-2 for float16 and 5e-2 for bfloat16.
    Returns:
      A context manager: `with mica.stance("check"):` restores, at its end, what
      was before.
    Raises:
      ValueError: There is no such stance.
      CaptureError: From a compiled callable, under `fail_on_recompile`; tells
        the guard that failed. The program did nothing; one in pieces ran to
        its end.
      CheckError: From a compiled callable, under `check`; names the first
        difference. The program's effects are those of the eager run.
    """
    return Change(stance, rtol)


_mica.set_checker(check.check)
