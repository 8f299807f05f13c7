"""What a program can reach, as it is at one moment.

A Scene is a picture of objects: taken before a run it can put them back; two
of them, taken after two runs from the same start, can be compared.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from mica import _mica

ABSENT = object()
CONSTANTS = (type(None), bool, int, float, complex, str, bytes, slice, range)

_OTHERS = sys.stdlib_module_names | {"torch", "mica", "numpy", "builtins"}
_LEAVES = (type, ModuleType, CodeType)


@dataclasses.dataclass
class Node:
    """One object.

    Attributes:
      object: The object, kept alive.
      path: A readable expression for it.
      items: What a container holds, by key or number; None for no container.
      attributes: What its `__dict__` holds; None if it has none.
      slots: What its slots hold.
      others: Further objects behind it, by a readable suffix of the path.
      data: A tensor's elements, or a numpy array's.
      meta: What else there is to compare of a tensor.
      memory: A tensor in the memory that the object had.
      version: Of a tensor, how often it was written; -1 if unknown.
    """

    object: Any
    path: str
    items: list[tuple[Any, Any]] | None = None
    attributes: list[tuple[str, Any]] | None = None
    slots: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    others: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    data: torch.Tensor | None = None
    meta: tuple[Any, ...] = ()
    memory: torch.Tensor | None = None
    version: int = -1

    def parts(self) -> Iterator[tuple[str, Any]]:
        """All objects behind it, with a suffix of the path."""
        for number, (key, value) in enumerate(self.items or ()):
            if isinstance(key, CONSTANTS):
                yield f"[{key!r}]", value
            else:
                yield f" key {number}", key
                yield f"[key {number}]", value
        for name, value in [*(self.attributes or ()), *self.slots]:
            yield f".{name}", value
        yield from self.others


class Scene:
    """The objects behind `roots`, as they are now.

    Attributes:
      nodes: By `id`, in the order in which they were found.
      roots: Path and object.
    """

    def __init__(
        self, roots: Sequence[tuple[str, Any]], before: Scene | None = None
    ) -> None:
        """Takes the picture.

        Args:
          roots: Path and object, where to begin.
          before: An earlier one, to share elements with that haven't changed.
        """
        self.roots = list(roots)
        self.nodes: dict[int, Node] = {}
        waiting = deque(self.roots)
        while waiting:
            path, value = waiting.popleft()
            if id(value) in self.nodes or value is ABSENT:
                continue
            old = before.nodes.get(id(value)) if before else None
            node = _look_at(value, path, old)
            self.nodes[id(value)] = node
            waiting.extend(
                (path + suffix, part) for suffix, part in node.parts()
            )

    def __contains__(self, value: Any) -> bool:
        return id(value) in self.nodes

    def restore(self) -> None:
        """Puts all objects back into the state that they had."""
        for node in self.nodes.values():
            if isinstance(node.object, torch.Tensor):
                _restore_tensor(node)
            elif node.memory is not None:
                _restore_elements(node.memory, node)
            else:
                _restore_parts(node)


def _look_at(value: Any, path: str, old: Node | None) -> Node:
    node = Node(value, path)
    if isinstance(value, (*CONSTANTS, *_LEAVES)):
        return node
    if isinstance(value, _mica.Compiled):
        node.others = [("", value.__wrapped__)]
    elif isinstance(value, MethodType):
        node.others = [("", value.__self__), ("", value.__func__)]
    elif isinstance(value, torch.Tensor):
        _look_at_tensor(node, old)
    elif isinstance(value, FunctionType):
        node.others = list(_parts_of_function(value))
    elif (tensor := _tensor_of_array(value)) is not None:
        node.memory = tensor
        node.meta = (tensor.dtype, tuple(tensor.shape), "cpu", False)
        node.meta += (tensor.stride(),)
        node.data = _copy_unless_same(tensor, old)
    else:
        _look_at_instance(node)
    return node


def _look_at_tensor(node: Node, old: Node | None) -> None:
    value: torch.Tensor = node.object
    if value.is_leaf and value.grad is not None:
        node.others.append((".grad", value.grad))
    node.attributes = list(vars(value).items())
    node.meta = (
        value.dtype,
        tuple(value.shape),
        str(value.device),
        value.requires_grad,
    )
    if value.layout is not torch.strided or value.is_quantized:
        return
    node.meta += (value.stride(),)
    if not value.is_inference():
        node.version = value._version
    node.memory = value.data
    node.data = _copy_unless_same(node.memory, old)


def _copy_unless_same(tensor: torch.Tensor, old: Node | None) -> torch.Tensor:
    if old is not None and old.data is not None and same_bits(tensor, old.data):
        return old.data
    return tensor.clone()


def _tensor_of_array(value: Any) -> torch.Tensor | None:
    """A tensor in a numpy array's memory, if there can be one."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return None
    try:
        return torch.from_numpy(value) if value.flags.writeable else None
    except (TypeError, ValueError):  # Of objects, or with steps backward.
        return None


def _look_at_instance(node: Node) -> None:
    value = node.object
    if isinstance(value, dict):
        node.items = list(dict.items(value))
    elif isinstance(value, (list, tuple, deque)):
        node.items = list(enumerate(value))
    elif isinstance(value, (set, frozenset)):
        node.items = list(enumerate(sorted(value, key=repr)))
    attributes = _dict_of(value)
    if attributes is not None:
        node.attributes = list(attributes.items())
    if isinstance(value, functools.partial):
        node.others += [("", value.func), ("", value.args)]
        node.others.append(("", value.keywords))
    for kind in type(value).__mro__:
        for name in _slots(kind):
            held = _slot_of(value, name)
            if held is not ABSENT:
                node.slots.append((name, held))
        if _is_users(kind.__module__):
            functions = vars(kind).values()
            node.others += [("", f) for f in functions if is_function(f)]


def _dict_of(value: Any) -> dict[str, Any] | None:
    """Where an object's attributes are, if a class statement made its class.

    Asking some types in C for it makes one, which isn't nothing to a guard.
    """
    if type(value) in (OrderedDict, functools.partial):
        return None
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _slot_of(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return ABSENT


def is_function(value: Any) -> bool:
    """True for a function made by `def`."""
    return isinstance(value, FunctionType)


def _slots(kind: type) -> list[str]:
    names = vars(kind).get("__slots__", ())
    names = [names] if isinstance(names, str) else list(names)
    return [n for n in names if n not in ("__dict__", "__weakref__")]


def _is_users(module: str | None) -> bool:
    return module is not None and module.split(".")[0] not in _OTHERS


def _parts_of_function(value: FunctionType) -> Iterator[tuple[str, Any]]:
    cells = value.__closure__ or ()
    for name, cell in zip(value.__code__.co_freevars, cells, strict=False):
        try:
            yield f" {name}", cell.cell_contents
        except ValueError:  # Not set yet.
            continue
    for index, held in enumerate(value.__defaults__ or ()):
        yield f".__defaults__[{index}]", held
    for name, held in (value.__kwdefaults__ or {}).items():
        yield f".__kwdefaults__[{name!r}]", held
    for name, held in vars(value).items():
        yield f".{name}", held
    if _is_users(value.__module__):
        for name in sorted(_names_in(value.__code__)):
            if name in value.__globals__:
                yield f" {name}", value.__globals__[name]


def _names_in(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def _restore_tensor(node: Node) -> None:
    value: torch.Tensor = node.object
    if value.is_leaf and not value.is_inference():
        grad = dict(node.others).get(".grad")
        if value.grad is not grad:
            value.grad = grad
        if value.requires_grad != node.meta[3]:
            value.requires_grad_(node.meta[3])
    if node.memory is None:
        return
    if value.data_ptr() != node.memory.data_ptr():
        value.data = node.memory  # The program gave it other data.
    if _restore_elements(value.detach(), node) and node.version >= 0:
        torch._C._autograd._unsafe_set_version_counter(
            (value,), (node.version,)
        )


def _restore_elements(tensor: torch.Tensor, node: Node) -> bool:
    """False if they are as they were."""
    if node.data is None or same_bits(tensor, node.data):
        return False
    with torch.no_grad():
        tensor.copy_(node.data)
    return True


def _restore_parts(node: Node) -> None:
    value = node.object
    if isinstance(value, dict) and node.items is not None:
        kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
        if not _same_items(list(kind.items(value)), node.items):
            kind.clear(value)
            for key, held in node.items:
                kind.__setitem__(value, key, held)
    elif isinstance(value, (list, deque, set)) and node.items is not None:
        then = [held for _, held in node.items]
        now = sorted(value, key=repr) if isinstance(value, set) else value
        if not _same_items(list(enumerate(now)), list(enumerate(then))):
            value.clear()
            add: Any = value.update if isinstance(value, set) else value.extend
            add(then)
    if node.attributes is not None:
        attributes = object.__getattribute__(value, "__dict__")
        if not _same_items(list(attributes.items()), node.attributes):
            attributes.clear()
            attributes.update(node.attributes)
    for name, held in node.slots:
        if _slot_of(value, name) is not held:
            object.__setattr__(value, name, held)


def _same_items(
    now: Sequence[tuple[Any, Any]], then: Sequence[tuple[Any, Any]]
) -> bool:
    return len(now) == len(then) and all(
        (a is c or a == c) and b is d
        for (a, b), (c, d) in zip(now, then, strict=True)
    )


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if two tensors hold the same bytes."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if not a.is_floating_point():
        return torch.equal(a, b)
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = kinds[a.element_size()]
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))
