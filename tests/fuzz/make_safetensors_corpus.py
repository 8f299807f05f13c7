#!/usr/bin/env python3
"""Writes the seeds of safetensors_fuzz, by the format's own library.

Usage: make_safetensors_corpus.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save


def with_header(header: object, data: bytes = b"") -> bytes:
    """A file of any header, also of one that is no safetensors."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def seeds() -> dict[str, bytes]:
    """The files by name."""
    dtypes = (
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
    )
    every = {f"t{i}": torch.ones(1, dtype=t) for i, t in enumerate(dtypes)}
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    good = save({"w": torch.ones(2, 3), "b": torch.zeros(0)}, {"k": "v"})
    return {
        "empty": with_header({}),
        "one": save({"fc.weight": torch.arange(6.0).reshape(2, 3)}),
        "metadata": good,
        "every_dtype": save(every),
        "scalar": save({"x": torch.tensor(3.0)}),
        "truncated": good[:-5],
        "half_header": good[: len(good) // 3],
        "long_header": (1 << 62).to_bytes(8, "little") + b"{}",
        "overlap": with_header({"a": entry, "b": entry}, bytes(8)),
        "gap": with_header(
            {"a": {**entry, "data_offsets": [4, 12]}}, bytes(12)
        ),
        "huge_shape": with_header(
            {"a": {**entry, "shape": [1 << 40, 1 << 40]}}, bytes(8)
        ),
        "unknown_dtype": with_header(
            {"a": {**entry, "dtype": "C64"}}, bytes(8)
        ),
        "deep": with_header({"a": [[[[[[[[]]]]]]]]}),
    }


def main() -> None:
    """Writes them."""
    here = Path(__file__).resolve().parent
    folder = Path(sys.argv[1]) if sys.argv[1:] else here / "safetensors_corpus"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds().items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
