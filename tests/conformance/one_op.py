"""Writes a recorded ATen call as the text of a Program with that one op."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Container, Iterator
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

# A view of an operand that nobody else holds, so that nothing can tell.
_UNSAID_VIEWS = ("aten._unsafe_view.default",)


class Unsupported(Exception):
    """The call has an argument or a result that Programs have no form for."""


@dataclasses.dataclass
class OneOp:
    """A Program of one op that eager ran, with what went in and came out."""

    name: str  # "aten.add.Tensor".
    text: str
    feeds: dict[str, torch.Tensor]
    wants: list[torch.Tensor]  # Lying as eager's.
    in_double: Callable[[], list[torch.Tensor]]  # The same in float64.
    keeps_strides: bool

    def digest(self) -> str:
        """Tells calls apart that differ in numbers alone."""
        found = hashlib.sha1(self.text.encode())
        for x in self.feeds.values():
            found.update(_bytes_of(x).numpy().tobytes())
        return found.hexdigest()

    @property
    def dtype(self) -> torch.dtype:
        """That of the first operand, or of the result if there is none."""
        tensors = itertools.chain(self.feeds.values(), self.wants)
        return next(tensors).dtype


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

    def __init__(
        self,
        *,
        keeps_strides: bool = False,
        names: Container[str] | None = None,
    ) -> None:
        """Makes a recorder.

        Args:
          keeps_strides: Results lie as eager's do, else row-major.
          names: The ops to record, all if None.
        """
        super().__init__()
        self.keeps_strides = keeps_strides
        self.names = names
        self.ops: list[OneOp] = []
        self.without_form: collections.Counter[tuple[str, str]] = (
            collections.Counter()
        )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs the call and keeps it."""
        kwargs = kwargs or {}
        name = str(func).removesuffix(".default")
        if func._schema.is_mutable or (
            self.names is not None and name not in self.names
        ):
            return func(*args, **kwargs)
        # Copies, since this call or a later one may write the tensors.
        copies = torch.utils._pytree.tree_map_only(
            torch.Tensor, copy_of, (args, kwargs)
        )
        result = func(*args, **kwargs)
        try:
            call = _Call(func, *copies, result)
            self.ops.append(_one_op(call, args, self.keeps_strides))
        except Unsupported as error:
            self.without_form[name, str(error)] += 1
        else:
            _check_declared_effects(call, args, kwargs)
        return result


def _tensors_in(tree: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def has_same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if the tensors' whole storages are equal."""
    return torch.equal(_bytes_of(a), _bytes_of(b))


def _check_declared_effects(call: _Call, args: Any, kwargs: Any) -> None:
    """Eager wrote no argument, and shares memory where the schema says so."""
    tensors = _tensors_in((args, kwargs))
    written = [
        tensor
        for tensor, copy in zip(
            tensors, _tensors_in((call.args, call.kwargs)), strict=True
        )
        if not has_same_bytes(tensor, copy)
    ]
    assert not written or _writes_hidden(call), f"{call.op} wrote"
    storages = {tensor.untyped_storage()._cdata for tensor in tensors}
    for tensor in _tensors_in(call.result):
        is_shared = tensor.untyped_storage()._cdata in storages
        is_said = _is_view(call) or str(call.op) in _UNSAID_VIEWS
        assert not is_shared or is_said, f"{call.op} shares memory"


class _Writer:
    """Collects the inputs of the Program while its op is written."""

    def __init__(self, *, counts_from_storage: bool) -> None:
        self.counts_from_storage = counts_from_storage
        self.inputs: list[str] = []
        self.feeds: dict[str, torch.Tensor] = {}

    def value(self, tensor: torch.Tensor, type_text: str) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(f"%{name}: {type_text}")
        self.feeds[name] = tensor
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


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
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


def _writes_hidden(call: _Call) -> bool:
    """True for batch norm of old, whose schema conceals two writes."""
    if str(call.op) != "aten.native_batch_norm.default":
        return False
    given = dict((param.name, value) for param, value in _named_arguments(call))
    has_statistics = given["running_mean"] is not None
    return bool(given["training"]) and has_statistics


def _in_double(call: _Call) -> list[torch.Tensor]:
    """What eager makes of the same numbers in float64."""

    def widened(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.to(torch.float64)
        if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
            return torch.float64
        return leaf

    args, kwargs = torch.utils._pytree.tree_map(
        widened, (call.args, call.kwargs)
    )
    wide = _Call(call.op, args, kwargs, None)
    with torch.no_grad():
        wide.result = call.op(*args, **kwargs)
    results = [tensor for tensor in _tensors_of(wide) if tensor is not None]
    if _writes_hidden(wide):
        results += wide.args[3:5]
    return results


def _one_op(call: _Call, args: Any, keeps_strides: bool) -> OneOp:
    """The Program of a call; `args` are those that it may have written."""
    name = str(call.op).removesuffix(".default")
    writer = _Writer(
        counts_from_storage=call.op._schema.name.endswith("as_strided")
    )
    arguments = []
    for param, value in _named_arguments(call):
        if param.name not in _IGNORED_PARAMS:
            text = writer.argument(value, "Tensor" in str(param.type))
            arguments.append(f"{param.name}={text}")
    results = _tensors_of(call)
    if _writes_hidden(call):
        # As lowering has it, with the new statistics as results.
        name = "aten._native_batch_norm_legit_functional"
        results += args[3:5]
    # Views have the strides that inference says, and must have eager's.
    with_strides = keeps_strides or _is_view(call)
    types = [_result_type(item, with_strides=with_strides) for item in results]
    names = [f"%y{i}" for i in range(len(results))]
    returned = [
        name
        for name, item in zip(names, results, strict=True)
        if item is not None
    ]
    text = (
        f"program @one({', '.join(writer.inputs)}) {{\n"
        f"  {', '.join(names)} = {name}({', '.join(arguments)}) : "
        f"{', '.join(types)}\n"
        f"  return {', '.join(returned)}\n}}\n"
    )
    wants = [copy_of(tensor) for tensor in results if tensor is not None]
    return OneOp(
        name,
        text,
        writer.feeds,
        wants,
        functools.partial(_in_double, call),
        with_strides,
    )


def record_call(call: functools.partial[Any]) -> OneOp:
    """The Program of one call, which is not decomposed.

    Args:
      call: A torch._ops.OpOverload with its arguments.
    Raises:
      Unsupported: There is no form for it.
    """
    args, kwargs = torch.utils._pytree.tree_map_only(
        torch.Tensor, copy_of, (call.args, call.keywords)
    )
    with torch.no_grad():
        made = _Call(call.func, args, kwargs, call())
    _check_declared_effects(made, call.args, call.keywords)
    return _one_op(made, call.args, keeps_strides=False)


def record(
    fn: Callable[[], Any],
    *,
    keeps_strides: bool = False,
    with_grad: bool = False,
    names: Container[str] | None = None,
) -> list[OneOp]:
    """The calls that `fn` makes below autograd.

    Args:
      fn: A call of torch functions.
      keeps_strides: Results lie as eager's do, else row-major.
      with_grad: Under differentiation, where torch makes other calls.
      names: The ops to record, all if None.
    Returns:
      A Program for each call that has a form as one, in order.
    """
    recorder = Recorder(keeps_strides=keeps_strides, names=names)
    with torch.set_grad_enabled(with_grad), recorder:
        fn()
    return recorder.ops
