"""Tensors of ONNX files as torch's."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mica.imported.errors import WHO

# By TensorProto.DataType.
DTYPES: dict[int, torch.dtype] = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    4: torch.uint16,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    12: torch.uint32,
    13: torch.uint64,
    16: torch.bfloat16,
}
_EXTERNAL = 1  # TensorProto.EXTERNAL
_BFLOAT16 = torch.bfloat16


def dtype_of(element: int, what: str) -> torch.dtype:
    """Returns the dtype of an element type.

    Args:
      element: A TensorProto.DataType.
      what: Whose it is, for errors.
    Raises:
      NotImplementedError: torch computes with no such type.
    """
    if element in DTYPES:
        return DTYPES[element]
    from onnx import TensorProto

    names = {number: name for name, number in TensorProto.DataType.items()}
    name = names.get(element, f"type {element}")
    raise NotImplementedError(
        f"{WHO}: {what} has elements of {name}: wants floats of 16 to 64 "
        "bits, ints of 8 to 64 bits, or bool"
    )


def read_tensor(proto: Any, folder: str | None, what: str) -> torch.Tensor:
    """Reads a TensorProto.

    Args:
      proto: The tensor.
      folder: Where the model lies, for data outside of it.
      what: What to call the tensor in errors.
    Returns:
      A tensor with memory of its own.
    Raises:
      ValueError: Its data is damaged, or lies outside of the model's folder.
      NotImplementedError: torch has no such dtype.
    """
    dtype = dtype_of(proto.data_type, what)
    sizes = tuple(proto.dims)
    if any(size < 0 for size in sizes):
        raise ValueError(f"{WHO}: {what} has sizes {list(sizes)}")
    if proto.data_location == _EXTERNAL:
        return _read_external(proto, folder, dtype, sizes, what)
    import onnx

    try:
        array = onnx.numpy_helper.to_array(proto)
        return from_array(np.ascontiguousarray(array)).reshape(sizes)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"{WHO}: {what} is damaged: wants {_words(dtype, sizes)} ({error})"
        ) from None


def from_array(array: Any) -> torch.Tensor:
    """Returns a numpy array as a tensor with memory of its own."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(_BFLOAT16)
    return torch.from_numpy(array.copy())


def _read_external(
    proto: Any,
    folder: str | None,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
    what: str,
) -> torch.Tensor:
    entries = {entry.key: entry.value for entry in proto.external_data}
    path = _inside(entries.get("location", ""), folder, what)
    num_bytes = math.prod(sizes) * dtype.itemsize
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(num_bytes)))
    except ValueError:
        raise ValueError(
            f"{WHO}: {what}: offset and length of {path} are no numbers"
        ) from None
    if length != num_bytes or offset < 0:
        raise ValueError(
            f"{WHO}: {what} has {length} bytes from {offset} on in {path}: "
            f"{_words(dtype, sizes)} wants {num_bytes}"
        )
    try:
        data = np.fromfile(path, np.uint8, length, offset=offset)
    except OSError as error:
        raise ValueError(f"{WHO}: {what} lies in {path}: {error}") from None
    if data.size != length:
        raise ValueError(
            f"{WHO}: {what} wants {length} bytes from {offset} on in {path}, "
            f"which has {max(0, os.path.getsize(path) - offset)}"
        )
    if length == 0:
        return torch.empty(sizes, dtype=dtype)
    return torch.from_numpy(data).view(dtype).reshape(sizes)


def _inside(location: str, folder: str | None, what: str) -> str:
    """The file of a tensor's data, which has to lie beside the model."""
    if folder is None:
        raise ValueError(
            f"{WHO}: {what} lies in the file '{location}': wants the model's "
            "path, or folder=, to look for it"
        )
    base = Path(folder).resolve()
    path = (base / location).resolve()
    if not location or not path.is_relative_to(base) or path == base:
        raise ValueError(
            f"{WHO}: {what} lies in '{location}', which is no file inside of "
            f"the model's folder {base}"
        )
    return os.fspath(path)


def _words(dtype: torch.dtype, sizes: tuple[int, ...]) -> str:
    return f"{str(dtype).removeprefix('torch.')}{list(sizes)}"
