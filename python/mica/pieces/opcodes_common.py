"""What holds of a version of CPython unless its own file says otherwise."""

from __future__ import annotations


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


def gives_truth(name: str, arg: int) -> bool:
    """Whether what an instruction leaves is there for the jump behind it."""
    return False
