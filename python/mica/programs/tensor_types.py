"""Types as Programs write them, such as "f32[8,64]"."""

from __future__ import annotations

import torch

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}


# How a tensor lies in another: "output", "input" or "variable", which one,
# sizes, strides, offset, "" or another dtype, lazy bits ("", "conj", "neg",
# "conjneg").
Window = tuple[str, int, list[int], list[int], int, str, str]


def parse_type(
    text: str,
) -> tuple[torch.dtype, list[int] | None, list[int] | None]:
    """Reads a type without symbols.

    Args:
      text: The type, as "f32[2,3]{1,2}".
    Returns:
      Its dtype, sizes and strides; None for the latter two of a host scalar.
    """
    kind, _, strides_text = text.partition("{")
    dtype, bracket, dims = kind.rstrip("]").partition("[")
    if not bracket:
        return DTYPES[dtype], None, None
    sizes = [int(dim) for dim in dims.split(",") if dim]
    if strides_text:
        strides = [int(s) for s in strides_text.rstrip("}").split(",") if s]
        return DTYPES[dtype], sizes, strides
    strides = [1] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(sizes[i + 1], 1)
    return DTYPES[dtype], sizes, strides
