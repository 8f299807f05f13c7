"""What is CPython 3.12's alone."""

from __future__ import annotations

from mica.pieces import opcodes_common
from mica.pieces.opcodes_common import callable_depth, gives_truth, halves
from mica.pieces.opcodes_since_312 import EFFECTS as _SINCE

__all__ = [
    "CHECKED_LOAD",
    "EFFECTS",
    "LOOP_END",
    "bound_method",
    "callable_depth",
    "effect",
    "gives_truth",
    "halves",
]

# What a loop that ends skips.
LOOP_END = ("END_FOR",)
# A load that minds a variable without a value.
CHECKED_LOAD = "LOAD_FAST_CHECK"

EFFECTS: dict[str, tuple[int, str]] = {
    **_SINCE,
    "KW_NAMES": (0, ""),
    "LOAD_CLOSURE": (0, "o"),
}


def effect(name: str, arg: int) -> tuple[int, str] | None:
    """Of an instruction that says with its argument what it takes."""
    match name:
        case "LOAD_ATTR":
            return 1, "mo" if arg & 1 else "o"
        case "LOAD_SUPER_ATTR":
            return 3, "mo" if arg & 1 else "o"
    return opcodes_common.effect(name, arg)


def bound_method(name: str, arg: int) -> list[tuple[str, int]] | None:
    """The same look-up of a method, which leaves a bound one and a null."""
    if name not in ("LOAD_ATTR", "LOAD_SUPER_ATTR"):
        return None
    return [(name, arg & ~1), ("PUSH_NULL", 0), ("SWAP", 2)]
