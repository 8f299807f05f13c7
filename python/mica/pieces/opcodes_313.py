"""What is CPython 3.13's alone."""

from __future__ import annotations

from mica.pieces.opcodes_since_312 import EFFECTS as _SINCE

# What a loop that ends skips.
LOOP_END = ("END_FOR", "POP_TOP")
# A load that minds a variable without a value.
CHECKED_LOAD = "LOAD_FAST_CHECK"

EFFECTS: dict[str, tuple[int, str]] = {
    **_SINCE,
    **dict.fromkeys(
        ["TO_BOOL", "CONVERT_VALUE", "FORMAT_SIMPLE", "MAKE_FUNCTION"],
        (1, "o"),
    ),
    **dict.fromkeys(["FORMAT_WITH_SPEC", "SET_FUNCTION_ATTRIBUTE"], (2, "o")),
}

_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}


def effect(name: str, arg: int) -> tuple[int, str] | None:
    """Of an instruction that says with its argument what it takes."""
    match name:
        case "LOAD_GLOBAL":
            return 0, "on" if arg & 1 else "o"
        case "LOAD_ATTR":
            return 1, "om" if arg & 1 else "o"
        case "LOAD_SUPER_ATTR":
            return 3, "om" if arg & 1 else "o"
        case "CALL_KW":
            return arg + 3, "o"
    return None


def callable_depth(arg: int) -> int:
    """How deep the callable lies whose keywords DICT_MERGE gathers."""
    return arg + 4


def halves(name: str, arg: int) -> list[tuple[str, int]]:
    """The instructions that one of the bytecode stands for."""
    if name not in _PAIRS:
        return [(name, arg)]
    first, second = _PAIRS[name]
    return [(first, arg >> 4), (second, arg & 15)]


def bound_method(name: str, arg: int) -> list[tuple[str, int]] | None:
    """The same look-up of a method, which leaves a bound one and a null."""
    if name not in ("LOAD_ATTR", "LOAD_SUPER_ATTR"):
        return None
    return [(name, arg & ~1), ("PUSH_NULL", 0)]


def gives_truth(name: str, arg: int) -> bool:
    """Whether what an instruction leaves is there for the jump behind it."""
    return name == "TO_BOOL" or (name == "COMPARE_OP" and arg & 16 != 0)
