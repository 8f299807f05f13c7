"""What instructions do to stack and variables."""

from __future__ import annotations

from mica.pieces.bytecode import Instruction, Unsplittable, own

# Operands popped, then what is pushed: an object, a null, a method or null, a
# variable's value or null, what a handler restores.
_EFFECTS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(
        [
            "NOP",
            "RESUME",
            "MAKE_CELL",
            "COPY_FREE_VARS",
            "DELETE_FAST",
            "DELETE_DEREF",
            "DELETE_GLOBAL",
            "JUMP_FORWARD",
            "JUMP_BACKWARD",
            "JUMP_BACKWARD_NO_INTERRUPT",
        ],
        (0, ""),
    ),
    **dict.fromkeys(
        [
            "LOAD_CONST",
            "LOAD_FAST",
            "LOAD_DEREF",
            "LOAD_NAME",
            "LOAD_BUILD_CLASS",
            "LOAD_ASSERTION_ERROR",
        ],
        (0, "o"),
    ),
    **dict.fromkeys(
        [
            "POP_TOP",
            "STORE_FAST",
            "STORE_DEREF",
            "STORE_GLOBAL",
            "DELETE_ATTR",
            "POP_EXCEPT",
            "RETURN_VALUE",
            "RERAISE",
            "LIST_APPEND",
            "SET_ADD",
            "LIST_EXTEND",
            "SET_UPDATE",
            "DICT_UPDATE",
            "DICT_MERGE",
        ],
        (1, ""),
    ),
    **dict.fromkeys(
        [
            "UNARY_NEGATIVE",
            "UNARY_NOT",
            "UNARY_INVERT",
            "GET_ITER",
            "CHECK_EXC_MATCH",
        ],
        (1, "o"),
    ),
    **dict.fromkeys(
        [
            "BINARY_SUBSCR",
            "BINARY_OP",
            "COMPARE_OP",
            "IS_OP",
            "CONTAINS_OP",
            "IMPORT_NAME",
        ],
        (2, "o"),
    ),
    **own.EFFECTS,
    "PUSH_NULL": (0, "n"),
    "STORE_ATTR": (2, ""),
    "DELETE_SUBSCR": (2, ""),
    "STORE_SUBSCR": (3, ""),
    "MAP_ADD": (2, ""),
    "BEFORE_WITH": (1, "oo"),
    "PUSH_EXC_INFO": (1, "xo"),
    "WITH_EXCEPT_START": (0, "o"),
    "IMPORT_FROM": (0, "o"),
    "GET_LEN": (0, "o"),
    "MATCH_MAPPING": (0, "o"),
    "MATCH_SEQUENCE": (0, "o"),
    "MATCH_KEYS": (0, "o"),
    "MATCH_CLASS": (3, "o"),
}
# Operands that are looked at and stay, from the top, those popped included.
_PEEKS: dict[str, int] = {
    "WITH_EXCEPT_START": 4,
    "IMPORT_FROM": 1,
    "GET_LEN": 1,
    "MATCH_MAPPING": 1,
    "MATCH_SEQUENCE": 1,
    "MATCH_KEYS": 2,
    "CHECK_EXC_MATCH": 2,
    "FOR_ITER": 1,
}
ENDS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
JUMPS = frozenset(
    ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
)
READS = frozenset(
    [
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_AND_CLEAR",
        "LOAD_CLOSURE",
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_CLASSDEREF",
        "DELETE_FAST",
        "MAKE_CELL",
    ]
)
LOCAL_OPS = READS | {"STORE_FAST"}
UNBINDS = frozenset(("DELETE_FAST", "LOAD_FAST_AND_CLEAR"))
BINDS = UNBINDS | {"STORE_FAST", "MAKE_CELL"}


# What only brings operands, so that it may as well belong to what takes them.
LOADS = frozenset(
    (
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_CONST",
        "LOAD_GLOBAL",
        "LOAD_DEREF",
        "LOAD_CLOSURE",
        "LOAD_ATTR",
        "LOAD_METHOD",
        "PUSH_NULL",
    )
)


def effect(instruction: Instruction) -> tuple[int, str]:
    """How many operands an instruction pops, and what it pushes."""
    name, arg = instruction.name, instruction.arg
    known = _EFFECTS.get(name) or own.effect(name, arg)
    if known is not None:
        return known
    match name:
        case "CALL":
            return arg + 2, "o"
        case "CALL_FUNCTION_EX":
            return 3 + (arg & 1), "o"
        case "BUILD_TUPLE" | "BUILD_LIST" | "BUILD_SET" | "BUILD_STRING":
            return arg, "o"
        case "BUILD_SLICE":
            return arg, "o"
        case "BUILD_MAP":
            return 2 * arg, "o"
        case "BUILD_CONST_KEY_MAP":
            return arg + 1, "o"
        case "UNPACK_SEQUENCE":
            return 1, "o" * arg
        case "UNPACK_EX":
            return 1, "o" * ((arg & 255) + (arg >> 8) + 1)
        case "RAISE_VARARGS":
            return arg, ""
    raise Unsplittable(f"it has an instruction {name}")


def touched(instruction: Instruction) -> int:
    """How deep into the stack an instruction looks."""
    name, arg = instruction.name, instruction.arg
    if name in ("SWAP", "COPY"):
        return arg
    if name in ("LIST_APPEND", "SET_ADD", "LIST_EXTEND"):
        return arg + 1
    if name in ("SET_UPDATE", "DICT_UPDATE"):
        return arg + 1
    if name == "MAP_ADD":
        return arg + 2
    if name == "DICT_MERGE":
        return own.callable_depth(arg)
    if name == "RERAISE":
        return arg + 1
    if name in ("FOR_ITER", "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
        return 1
    return max(_PEEKS.get(name, 0), effect(instruction)[0])
