"""What is CPython 3.11's alone."""

from __future__ import annotations

from mica.pieces.opcodes_common import (
    callable_depth,
    effect,
    gives_truth,
    halves,
)

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
LOOP_END: tuple[str, ...] = ()
# A load that minds a variable without a value.
CHECKED_LOAD = "LOAD_FAST"

EFFECTS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(["PRECALL", "KW_NAMES"], (0, "")),
    **dict.fromkeys(["LOAD_CLOSURE", "LOAD_CLASSDEREF"], (0, "o")),
    **dict.fromkeys(
        [
            "PRINT_EXPR",
            "POP_JUMP_FORWARD_IF_FALSE",
            "POP_JUMP_FORWARD_IF_TRUE",
            "POP_JUMP_FORWARD_IF_NONE",
            "POP_JUMP_FORWARD_IF_NOT_NONE",
            "POP_JUMP_BACKWARD_IF_FALSE",
            "POP_JUMP_BACKWARD_IF_TRUE",
            "POP_JUMP_BACKWARD_IF_NONE",
            "POP_JUMP_BACKWARD_IF_NOT_NONE",
        ],
        (1, ""),
    ),
    **dict.fromkeys(["LOAD_ATTR", "LIST_TO_TUPLE", "UNARY_POSITIVE"], (1, "o")),
    "LOAD_METHOD": (1, "mo"),
}


def bound_method(name: str, arg: int) -> list[tuple[str, int]] | None:
    """The same look-up of a method, which leaves a bound one and a null."""
    if name != "LOAD_METHOD":
        return None
    return [("PUSH_NULL", 0), ("SWAP", 2), ("LOAD_ATTR", arg)]
