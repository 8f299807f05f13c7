"""What is CPython 3.11's alone."""

from __future__ import annotations

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


def effect(name: str, arg: int) -> tuple[int, str] | None:
    """Of an instruction that says with its argument what it takes."""
    match name:
        case "LOAD_GLOBAL":
            return 0, "no" if arg & 1 else "o"
        case "FORMAT_VALUE":
            return (2 if arg & 4 else 1), "o"
        case "MAKE_FUNCTION":
            return 1 + (arg & 15).bit_count(), "o"
    return None


def callable_depth(arg: int) -> int:
    """How deep the callable lies whose keywords DICT_MERGE gathers."""
    return arg + 3


def halves(name: str, arg: int) -> list[tuple[str, int]]:
    """The instructions that one of the bytecode stands for."""
    return [(name, arg)]


def bound_method(name: str, arg: int) -> list[tuple[str, int]] | None:
    """The same look-up of a method, which leaves a bound one and a null."""
    if name != "LOAD_METHOD":
        return None
    return [("PUSH_NULL", 0), ("SWAP", 2), ("LOAD_ATTR", arg)]


def gives_truth(name: str, arg: int) -> bool:
    """Whether what an instruction leaves is there for the jump behind it."""
    return False
