"""Writes a recorded ATen call as the text of a Program with that one op."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
# Where a tensor lies is the Plan's to decide.
_IGNORED_PARAMS = {
    "layout",
    "device",
    "pin_memory",
    "memory_format",
    "generator",
    "non_blocking",
}


class Unsupported(Exception):
    """The call has an argument or a result that Programs have no form for."""


@dataclasses.dataclass
class OneOp:
    """A Program of one op that eager ran, with what went in and came out."""

    name: str  # "aten.add.Tensor".
    text: str
    feeds: dict[str, torch.Tensor]
    wants: list[torch.Tensor]


@dataclasses.dataclass
class _Call:
    op: Any  # torch._ops.OpOverload.
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


class Recorder(TorchDispatchMode):
    """Turns the calls below autograd into Programs, one each.

    Calls that write an argument are left out, since lowering rewrites them,
    and so are those that Programs have no form for.
    """

    def __init__(self, *, keeps_strides: bool = False) -> None:
        """`keeps_strides`: results lie as eager's do, else row-major."""
        super().__init__()
        self.keeps_strides = keeps_strides
        self.ops: list[OneOp] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs the call and keeps it."""
        result = func(*args, **(kwargs or {}))
        if not func._schema.is_mutable:
            # At once: later calls may write the tensors of this one.
            with contextlib.suppress(Unsupported):
                call = _Call(func, args, kwargs or {}, result)
                self.ops.append(_one_op(call, self.keeps_strides))
        return result


class _Writer:
    """Collects the inputs of the Program while its op is written."""

    def __init__(self, *, counts_from_storage: bool) -> None:
        self.counts_from_storage = counts_from_storage
        self.inputs: list[str] = []
        self.feeds: dict[str, torch.Tensor] = {}

    def value(self, tensor: torch.Tensor, type_text: str) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(f"%{name}: {type_text}")
        self.feeds[name] = _copy_of(tensor)
        return f"%{name}"

    def tensor(self, tensor: torch.Tensor) -> str:
        if tensor.storage_offset() != 0 and self.counts_from_storage:
            raise Unsupported("an offset from the storage's first element")
        return self.value(tensor, _type_text(tensor, with_strides=True))

    def number(self, number: complex) -> str:
        """A Python number where a tensor is wanted: a host scalar."""
        if isinstance(number, bool):
            return self.value(torch.tensor(number), "bool")
        if isinstance(number, int):
            return self.value(torch.tensor(number), "i64")
        if isinstance(number, float):
            dtype = torch.float64
            return self.value(torch.tensor(number, dtype=dtype), "f64")
        raise Unsupported(f"number {number!r}")

    def argument(self, value: Any, wants_tensor: bool) -> str:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            items = (self.argument(item, wants_tensor) for item in value)
            return f"[{', '.join(items)}]"
        if wants_tensor and isinstance(value, (bool, int, float, complex)):
            return self.number(value)
        return _constant(value)


def _constant(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.dtype) and value in _DTYPES:
        return _DTYPES[value]
    raise Unsupported(f"argument {value!r}")


def _type_text(tensor: torch.Tensor, *, with_strides: bool) -> str:
    """The tensor's type as a Program prints it."""
    if tensor.dtype not in _DTYPES or tensor.layout != torch.strided:
        raise Unsupported(f"{tensor.dtype} {tensor.layout}")
    if tensor.is_conj() or tensor.is_neg():
        raise Unsupported("lazy conjugate or negative")
    dims = ",".join(map(str, tensor.shape))
    text = f"{_DTYPES[tensor.dtype]}[{dims}]"
    row_major = torch.empty(tensor.shape, device="meta").stride()
    if with_strides and tensor.stride() != row_major:
        text += "{" + ",".join(map(str, tensor.stride())) + "}"
    return text


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with the same strides over a storage of its own."""
    copy = torch.empty(0, dtype=tensor.dtype)
    return copy.set_(
        tensor.untyped_storage().clone(),  # type: ignore[call-overload]
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
    )


def _tensors_of(call: _Call) -> list[torch.Tensor | None]:
    """The results; None for one that the call leaves out."""
    if any(str(r.type).startswith("List") for r in call.op._schema.returns):
        raise Unsupported("a list of results")
    result = call.result
    results = result if isinstance(result, (list, tuple)) else [result]
    for param, value in _named_arguments(call):
        if param.name == "output_mask":  # Eager may make what isn't asked for.
            pairs = zip(results, value, strict=True)
            results = [item if is_wanted else None for item, is_wanted in pairs]
    for item in results:
        if not isinstance(item, torch.Tensor | None):
            raise Unsupported(f"result {item!r}")
    return list(results)


def _is_view(call: _Call) -> bool:
    return any(r.alias_info is not None for r in call.op._schema.returns)


def _named_arguments(call: _Call) -> Iterator[tuple[Any, Any]]:
    params = call.op._schema.arguments
    yield from zip(params, call.args, strict=False)
    for param in params[len(call.args) :]:
        if param.name in call.kwargs:
            yield param, call.kwargs[param.name]


def _result_type(tensor: torch.Tensor | None, *, with_strides: bool) -> str:
    if tensor is None:
        return "f32[0]"
    return _type_text(tensor, with_strides=with_strides)


def _one_op(call: _Call, keeps_strides: bool) -> OneOp:
    writer = _Writer(
        counts_from_storage=call.op._schema.name.endswith("as_strided")
    )
    arguments = []
    for param, value in _named_arguments(call):
        if param.name not in _IGNORED_PARAMS:
            text = writer.argument(value, "Tensor" in str(param.type))
            arguments.append(f"{param.name}={text}")
    results = _tensors_of(call)
    # Views have the strides that inference says, and must have eager's.
    with_strides = keeps_strides or _is_view(call)
    types = [_result_type(item, with_strides=with_strides) for item in results]
    names = [f"%y{i}" for i in range(len(results))]
    returned = [
        name
        for name, item in zip(names, results, strict=True)
        if item is not None
    ]
    name = str(call.op).removesuffix(".default")
    text = (
        f"program @one({', '.join(writer.inputs)}) {{\n"
        f"  {', '.join(names)} = {name}({', '.join(arguments)}) : "
        f"{', '.join(types)}\n"
        f"  return {', '.join(returned)}\n}}\n"
    )
    wants = [
        tensor.clone(memory_format=torch.contiguous_format)
        for tensor in results
        if tensor is not None
    ]
    return OneOp(name, text, writer.feeds, wants)


def record(
    fn: Callable[[], Any], *, keeps_strides: bool = False
) -> list[OneOp]:
    """The calls that `fn` makes below autograd, outside of differentiation.

    Args:
      fn: A call of torch functions.
      keeps_strides: Results lie as eager's do, else row-major.
    Returns:
      A Program for each call that has a form as one, in order.
    """
    with torch.no_grad(), Recorder(keeps_strides=keeps_strides) as recorder:
        fn()
    return recorder.ops
