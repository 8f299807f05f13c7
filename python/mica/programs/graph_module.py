"""A Program as a module of torch.fx, of ATen calls."""

from __future__ import annotations

import operator
import re
from collections.abc import (
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from mica.programs import windows as memory_windows
from mica.programs.aten_forms import (
    BITS,
    FORM,
    OWN_FORMS,
    SCALAR_OPS,
    as_torch,
    overload_of,
)
from mica.programs.tensor_types import DTYPES, Window, parse_type

_aten = torch.ops.aten

# They may give their argument itself, though no schema says so.
_MAY_ALIAS = ("aten.contiguous", "aten.reshape", "aten.to", "aten.flatten")


class Builder:
    """Makes one GraphModule."""

    def __init__(
        self,
        parts: Mapping[str, Any],
        tensors: Mapping[str, torch.Tensor],
        *,
        fed: Collection[str] = (),
        windows: Sequence[Window] | None = None,
        updates_in_place: bool = True,
    ) -> None:
        """Prepares the graph.

        Args:
          parts: `Program.parts()`.
          tensors: The variables' tensors, by the user's names.
          fed: Variables that are inputs, behind the Program's own.
          windows: `Record.windows`, which the module returns in place of the
            Program's outputs.
          updates_in_place: Whether the module writes what the Program updates;
            otherwise it returns the new values, behind the outputs.
        """
        self._parts = parts
        self._tensors = tensors
        self._fed = fed
        self._windows = windows
        self._updates_in_place = updates_in_place
        self._root = torch.nn.Module()
        self._graph = Graph()
        self._values: dict[str, Any] = {}
        self._types: dict[str, str] = {}
        # The value whose memory a value is a view of.
        self._bases: dict[str, str] = {}

    def build(self) -> GraphModule:
        """The module of all parts."""
        parts = self._parts
        for name in parts["inputs"]:
            self._values[name] = self._graph.placeholder(_word(name))
        for value, name in parts["variables"]:
            if name in self._fed:
                self._values[value] = self._graph.placeholder(_word(name))
        for value, name in parts["variables"]:
            if name not in self._fed:
                self._values[value] = self._attribute(name, self._find(name))
        for number, constant in enumerate(parts["constants"]):
            self._add_constant(number, *constant)
        for op in parts["ops"]:
            self._add_op(op)
        self._finish()
        self._graph.lint()
        return GraphModule(self._root, self._graph, "Program")

    def _finish(self) -> None:
        outputs = [self._values[name] for name in self._parts["outputs"]]
        updates = self._parts["updates"]
        if not self._updates_in_place:
            outputs += [self._values[value] for _, value in updates]
            self._graph.output(tuple(outputs))
            return
        written = {target for target, _ in updates}
        if self._windows is None:
            keep = [
                self._kept(name, written) for name in self._parts["outputs"]
            ]
        else:
            keep = [self._result(written, *window) for window in self._windows]
        new = [self._kept(value, written) for _, value in updates]
        for (target, _), value in zip(updates, new, strict=True):
            self._call(_aten.copy_.default, self._values[target], value)
        self._graph.output(tuple(keep))

    def _result(
        self,
        written: Collection[str],
        source: str,
        index: int,
        size: list[int],
        stride: list[int],
        offset: int,
        dtype: str,
        lazy: str,
    ) -> Any:
        """A tensor of the call's result; views of what is written stay so."""
        if source == "output":
            name = self._parts["outputs"][index]
            value = self._kept(name, written)
            if name in self._types:
                _, sizes, strides = parse_type(self._types[name])
                is_whole = (sizes, strides, 0) == (size, stride, offset)
                if is_whole and not dtype:
                    return self._with_bits(value, lazy)
        elif source == "input":
            value = self._values[self._parts["inputs"][index]]
        else:
            value = self._values[self._parts["variables"][index][0]]
        of_parts = bool(dtype) and DTYPES[dtype].is_complex
        if of_parts:
            size = [*size, 2]
            stride = [*(2 * s for s in stride), 1]
        elif dtype:
            value = self._call(_aten.view_as_real.default, value)
        window = memory_windows.read(self._graph, value, size, stride, offset)
        if of_parts:
            window = self._call(_aten.view_as_complex.default, window)
        return self._with_bits(window, lazy)

    def _with_bits(self, value: Any, lazy: str) -> Any:
        if lazy.startswith("conj"):
            value = self._call(_aten._conj.default, value)
        if lazy.endswith("neg"):
            value = self._call(_aten._neg_view.default, value)
        return value

    def _kept(self, name: str, written: Collection[str]) -> Any:
        """A value that what is written doesn't change."""
        value = self._values[name]
        if self._bases.get(name, name) not in written:
            return value
        return self._call(_aten.clone.default, value)

    def _find(self, name: str) -> torch.Tensor:
        if name not in self._tensors:
            raise NotImplementedError(
                f"mica.to_fx: the tensor of {name} isn't there: it is gone, or "
                "each call draws an array"
            )
        return self._tensors[name]

    def _attribute(self, name: str, tensor: torch.Tensor) -> Node:
        """Puts a tensor into the module under its own name, if it can."""
        words = [_word(word) for word in name.split(".")]
        owner: Any = self._root
        for word in words[:-1]:
            if word not in owner._modules:
                if hasattr(owner, word):
                    break
                owner.add_module(word, torch.nn.Module())
            owner = owner._modules[word]
        else:
            if not hasattr(owner, words[-1]):
                _register(owner, words[-1], tensor)
                return self._graph.get_attr(".".join(words))
        word = _word("_" + name.replace(".", "_"))
        while hasattr(self._root, word):
            word += "_"
        _register(self._root, word, tensor)
        return self._graph.get_attr(word)

    def _add_constant(
        self, number: int, name: str, kind: str, data: bytes
    ) -> None:
        dtype, shape, _ = parse_type(kind)
        flat = (
            torch.frombuffer(bytearray(data), dtype=dtype)
            if data
            else torch.empty(0, dtype=dtype)
        )
        if shape is None:
            self._values[name] = flat.item()
            return
        self._values[name] = self._attribute(
            f"_constant_{number}", flat.reshape(shape)
        )

    def _add_op(self, op: Mapping[str, Any]) -> None:
        given = {name: self._argument(a) for name, a in op["arguments"]}
        first = len(self._graph.nodes)
        name = op["op"]
        if op["num_bodies"]:
            results = None
        elif name == "mica.keep":  # Nothing is left out of a graph.
            results = []
        elif name in SCALAR_OPS:
            results = [self._call(SCALAR_OPS[name], *given.values())]
        elif name == "mica.scatter_view":
            results = [
                memory_windows.write(self._graph, op["types"][0], **given)
            ]
        elif name in ("mica.window_at", "mica.write_window_at"):
            results = [
                memory_windows.moved(self._graph, op["types"][0], **given)
            ]
        elif name == "aten.as_strided":
            results = [memory_windows.read(self._graph, **given)]
            self._note_views(op, overload_of(name)._schema)
        elif name in ("mica.adam_step", "mica.sgd_step"):
            results = self._optimizer_step(name, given)
        elif name in OWN_FORMS:
            results = self._aten_call({**op, "op": OWN_FORMS[name]}, given)
        elif name.startswith("mica."):
            results = None
        else:
            results = self._aten_call(op, given)
        if results is None:
            raise NotImplementedError(
                f"mica.to_fx: {name} ({op['line']}) has no form in ATen"
            )
        self._values.update(zip(op["results"], results, strict=True))
        self._types.update(zip(op["results"], op["types"], strict=True))
        for node in list(self._graph.nodes)[first:]:
            node.meta["line"] = op["line"]
            node.meta["scope"] = op["scope"]
            file, _, line = op["line"].rpartition(":")
            if file:
                node.meta["stack_trace"] = f'  File "{file}", line {line}'

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, tuple):
            kind, word = argument
            return self._values[word] if kind == "%" else DTYPES[word]
        if isinstance(argument, list):
            return [self._argument(part) for part in argument]
        return argument

    def _aten_call(
        self, op: Mapping[str, Any], given: Mapping[str, Any]
    ) -> list[Any]:
        """A call whose arguments stand as in torch's schema."""
        overload = overload_of(op["op"])
        form = FORM.match(op["op"])
        lazy = iter((form and form[1]) or ())
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        written: dict[str, Any] = {}
        last = 0
        for wanted in overload._schema.arguments:
            value = as_torch(
                wanted.name, given.get(wanted.name, wanted.default_value)
            )
            if wanted.alias_info is not None and wanted.alias_info.is_write:
                written[wanted.name] = value = self._clone(value)
            if form and form[1] and "Tensor" in str(wanted.type):
                value = self._lazily(value, lazy)
                if wanted.name in written:
                    written[wanted.name] = value
            is_default = wanted.has_default_value() and (
                type(value) is type(wanted.default_value)
                and value == wanted.default_value
            )
            if wanted.kwarg_only:
                if not is_default:
                    keywords[wanted.name] = value
                continue
            positional.append(value)
            if not is_default:
                last = len(positional)
        call = self._graph.call_function(
            overload, tuple(positional[:last]), keywords
        )
        self._note_views(op, overload._schema)
        returns = overload._schema.returns
        results = op["results"]
        own = len(results) - len(op["hidden"])
        is_list = len(returns) == 1 and "List" in str(returns[0].type)
        if len(returns) == 0:
            found = []
        elif len(returns) == 1 and not is_list:
            found = [call]
        else:
            found = [self._call(operator.getitem, call, i) for i in range(own)]
        for name in op["hidden"]:
            value = written[name]
            found += value if isinstance(value, list) else [value]
        return found

    def _lazily(self, value: Any, letters: Iterator[str]) -> Any:
        """Tensors with the bits that an operator's name says."""
        if isinstance(value, list):
            return [self._lazily(part, letters) for part in value]
        if value is None:
            return None
        return self._with_bits(value, BITS[next(letters)])

    def _note_views(self, op: Mapping[str, Any], schema: Any) -> None:
        is_view = op["is_view"] or op["op"].startswith(_MAY_ALIAS)
        is_view |= any(r.alias_info is not None for r in schema.returns)
        of = next(
            (a[1] for _, a in op["arguments"] if _is_value(a)),
            None,
        )
        if is_view and of is not None:
            base = self._bases.get(of, of)
            self._bases.update((name, base) for name in op["results"])

    def _clone(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._clone(part) for part in value]
        return (
            self._call(_aten.clone.default, value)
            if isinstance(value, Node)
            else value
        )

    def _optimizer_step(self, name: str, given: dict[str, Any]) -> list[Any]:
        tensors: dict[str, Any] = {}
        for key in ("self", "exp_avg", "exp_avg_sq", "momentum_buffer"):
            if given.get(key) is not None:
                tensors[key] = self._call(_aten.clone.default, given.pop(key))
        grad = given.pop("grad")
        if name == "mica.sgd_step":
            given.pop("momentum_buffer", None)
            buffer = tensors.get("momentum_buffer")
            buffers = [] if buffer is None else [buffer]
            self._graph.call_function(
                _aten._fused_sgd_.default,
                ([tensors["self"]], [grad], buffers),
                given,
            )
            return [tensors["self"], *buffers]
        is_decoupled = given.pop("is_decoupled")
        step = given.pop("step")
        overload = _aten._fused_adamw_ if is_decoupled else _aten._fused_adam_
        lists = [[tensors["self"]], [grad], [tensors["exp_avg"]]]
        lists += [[tensors["exp_avg_sq"]], [], [step]]
        self._graph.call_function(
            overload.default, tuple(lists), {**given, "amsgrad": False}
        )
        return list(tensors.values())

    def _call(self, function: Any, *args: Any) -> Node:
        return self._graph.call_function(function, args)


def _is_value(argument: Any) -> bool:
    return isinstance(argument, tuple) and argument[0] == "%"


def _word(name: str) -> str:
    """A name that Python takes for one."""
    word = re.sub(r"\W", "_", name)
    return word or "_"


def _register(owner: torch.nn.Module, word: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch.nn.Parameter):
        owner.register_parameter(word, tensor)
    else:
        owner.register_buffer(word, tensor)
