"""What CPython 3.12 and later versions have in common."""

from __future__ import annotations

EFFECTS: dict[str, tuple[int, str]] = {
    "RETURN_CONST": (0, ""),
    "LOAD_FAST_CHECK": (0, "o"),
    "LOAD_FAST_AND_CLEAR": (0, "s"),
    **dict.fromkeys(
        [
            "POP_JUMP_IF_FALSE",
            "POP_JUMP_IF_TRUE",
            "POP_JUMP_IF_NONE",
            "POP_JUMP_IF_NOT_NONE",
        ],
        (1, ""),
    ),
    "CALL_INTRINSIC_1": (1, "o"),
    "CALL_INTRINSIC_2": (2, "o"),
    "BINARY_SLICE": (3, "o"),
    "STORE_SLICE": (4, ""),
}
