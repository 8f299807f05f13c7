"""How two objects of one type are compared, for each type.

`t` is the comparison that is under way, a compare.Twins.
"""

from __future__ import annotations

import collections
import contextvars
import ctypes
import functools
import itertools
import math
import random
import re
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import torch

from mica import _mica

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_HOOKS = re.compile(r"_hooks(_\w+)?'\]$")
_COMPILED = "mica.compile("
_NUMBER = re.compile(r"-?\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+)")
_NODE = re.compile(r"grad_fn=<\w+>|, which is output \d+ of \w+,")
_FUNCTIONS = (types.BuiltinFunctionType, types.ModuleType, types.CodeType)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def plain_text(text: str) -> str:
    """Text without addresses, and without the names of autograd's nodes.

    What is compiled is shown as what it is made of.
    """
    while (begin := text.find(_COMPILED)) >= 0:
        end, depth = begin + len(_COMPILED), 1
        while end < len(text) and depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        inside = text[begin + len(_COMPILED) : end - (not depth)]
        text = text[:begin] + inside + text[end:]
    return _NODE.sub("", _ADDRESS.sub("0x", text))


def same_text(a: str, b: str, exact: bool) -> bool:
    """Whether two texts say the same.

    Args:
      a: One text.
      b: The other.
      exact: Else floats in them may differ as those of results may.
    """
    if a == b:
        return True
    a, b = plain_text(a), plain_text(b)
    if a == b or exact:
        return a == b
    if _NUMBER.sub("", a) != _NUMBER.sub("", b):
        return False
    ours, theirs = _NUMBER.findall(a), _NUMBER.findall(b)
    return all(
        math.isclose(float(one), float(other), rel_tol=1e-4, abs_tol=1e-5)
        for one, other in zip(ours, theirs, strict=True)
    )


# As they are before a program's process patches them.
_data_ptr = torch.Tensor.data_ptr
_is_contiguous = torch.Tensor.is_contiguous


def _same_memory_contents(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether they are equal bit for bit, as far as a short look tells."""
    if not (_is_contiguous(a) and _is_contiguous(b)):
        return False
    try:
        one, other = _data_ptr(a), _data_ptr(b)
    except RuntimeError:  # It has no memory of its own.
        return False
    if one == 0 or other == 0:
        return False
    size = a.nbytes
    return size == b.nbytes and ctypes.string_at(one, size) == ctypes.string_at(
        other, size
    )


def _bits(tensor: torch.Tensor) -> bytes:
    value = tensor.detach().resolve_conj().resolve_neg()
    if value.is_complex():
        value = torch.view_as_real(value)
    # A copy: memory that numpy has seen can't be resized any more.
    value = value.clone(memory_format=torch.contiguous_format)
    value = value.view(_INTEGERS[value.element_size()])
    found: bytes = value.numpy().tobytes()
    return found


def show(value: Any) -> str:
    """A short text without addresses."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    return plain_text(text)[:120]


def same_constant(t: Any, a: Any, b: Any, path: str) -> None:
    """Compares what never changes."""
    if a is b:
        return
    if isinstance(a, float):
        t.same_floats(a, b, path)
    elif isinstance(a, complex):
        t.same_floats(a.real, b.real, path)
        t.same_floats(a.imag, b.imag, path)
    elif isinstance(a, int) and -5 <= a <= 256 and a == b:
        t.fail(path, "is no longer the small int itself", id(a), id(b))
    elif isinstance(a, str):
        if not same_text(a, b, t.exact):
            t.fail(path, "differs", a, b)
    elif a != b and not (a != a and b != b):
        t.fail(path, "differs", a, b)


def _same_tensor(t: Any, a: torch.Tensor, b: torch.Tensor, path: str) -> None:
    if (
        a.dtype is not b.dtype
        or a.shape != b.shape
        or a.requires_grad is not b.requires_grad
        or a.layout is not b.layout
        or a.is_leaf is not b.is_leaf
    ):
        _same_forms(t, a, b, path)
    if (a.grad_fn is None) != (b.grad_fn is None):
        t.fail(f"{path}.grad_fn", "differs", a.grad_fn, b.grad_fn)
    strided = a.layout is torch.strided
    if strided:
        if a.numel() > 1 and a.stride() != b.stride():
            t.fail(f"{path}.stride()", "differs", a.stride(), b.stride())
        if a.storage_offset() != b.storage_offset():
            t.fail(f"{path}.storage_offset()", "differs", a, b)
        t.same_memory(a, b, path)
    if a.is_inference() != b.is_inference():
        t.fail(f"{path}.is_inference()", "differs", a, b)
    if a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg():
        t.fail(f"{path}.is_conj()", "differs", a, b)
    if strided and a.is_cpu and not _same_memory_contents(a, b):
        one, other = a.detach(), b.detach()
        is_rounded = _bits(one) != _bits(other)
        if (
            is_rounded
            and (
                t.exact
                or not (one.is_floating_point() or one.is_complex())
                or not _near(one, other, t.near)
            )
            and not _same_nan(one, other)
        ):
            t.fail(path, "differs", a, b)
        t.has_rounded |= is_rounded
    if a.is_leaf and a.requires_grad:
        t.same(a.grad, b.grad, f"{path}.grad")
    if a._backward_hooks or b._backward_hooks:
        t.same(
            list((a._backward_hooks or {}).values()),
            list((b._backward_hooks or {}).values()),
            f"{path}._backward_hooks",
        )
    own, theirs = vars(a), vars(b)
    if own or theirs:
        _same_dict(t, own, theirs, f"{path}.__dict__")


def _same_forms(t: Any, a: torch.Tensor, b: torch.Tensor, path: str) -> None:
    for what in ("dtype", "shape", "requires_grad", "layout", "is_leaf"):
        if getattr(a, what) != getattr(b, what):
            t.fail(
                f"{path}.{what}", "differs", getattr(a, what), getattr(b, what)
            )


def _numbers(tensor: torch.Tensor) -> Any:
    """Its elements for numpy: torch's own operators may be patched."""
    value = tensor.detach().resolve_conj().resolve_neg()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.to(torch.float64, copy=True).numpy()


def _near(a: torch.Tensor, b: torch.Tensor, near: float) -> bool:
    """By the largest element: where large ones cancel, rounding is left."""
    one, other = _numbers(a), _numbers(b)
    most = numpy.abs(one[numpy.isfinite(one)]).max(initial=0.0)
    most = near / 10 + near * most
    return bool(numpy.allclose(one, other, near, most, equal_nan=True))


def _same_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal but for the bits of NaN."""
    if not (a.is_floating_point() or a.is_complex()):
        return False
    one, other = _numbers(a), _numbers(b)
    if not numpy.array_equal(one, other, equal_nan=True):
        return False
    signs = numpy.signbit(one) == numpy.signbit(other)
    return bool(numpy.all(signs | numpy.isnan(one)))


def _same_list(t: Any, a: Any, b: Any, path: str) -> None:
    if len(a) != len(b):
        t.fail(path, "has another length", a, b)
    for i, (one, other) in enumerate(zip(a, b, strict=True)):
        if one is not other or type(one) in _LOOKED_INTO:
            t.same(one, other, f"{path}[{i}]")
    if type(a) not in (list, tuple, collections.deque):
        _same_attributes(t, a, b, path)


def _same_set(t: Any, a: Any, b: Any, path: str) -> None:
    ours, theirs = list(a), list(b)
    # Other objects are ordered by their addresses, and so is a NaN.
    if not all(type(v) in CONSTANTS and v == v for v in ours):
        ours, theirs = sorted(map(show, a)), sorted(map(show, b))
    _same_list(t, ours, theirs, path)


def _same_generator(t: Any, a: Any, b: Any, path: str) -> None:
    ours, theirs = random.Random.getstate(a), random.Random.getstate(b)
    if ours[:-1] != theirs[:-1]:
        t.fail(path, "differs in state", a, b)
    t.same(ours[-1], theirs[-1], f"{path}.gauss_next")


def _same_dict(t: Any, a: Any, b: Any, path: str) -> None:
    if type(a) in _PLAIN_DICTS and not a and not b:
        return
    ours, theirs = list(dict.items(a)), list(dict.items(b))
    if len(ours) != len(theirs):
        t.fail(path, "has other keys", list(a), list(b))
    for (k, v), (m, w) in zip(ours, theirs, strict=True):
        if type(k) is int and _HOOKS.search(path):
            pass  # The process counts hooks.
        elif type(k) is str:
            if k != m:
                t.fail(
                    path,
                    "has other keys, or in another order",
                    list(a),
                    list(b),
                )
        else:
            t.same(k, m, f"{path} key")
        if v is w and type(v) not in _LOOKED_INTO:
            continue
        t.same(
            v, w, f"{path}[{k!r}]" if type(k) in (str, int) else f"{path}[…]"
        )
    if type(a) not in _PLAIN_DICTS:
        _same_attributes(t, a, b, path)


def _same_function(t: Any, a: Any, b: Any, path: str) -> None:
    if a.__code__ is not b.__code__ and a.__code__ != b.__code__:
        t.fail(f"{path}.__code__", "differs", a.__code__, b.__code__)
    if a.__defaults__ or b.__defaults__:
        t.same(a.__defaults__, b.__defaults__, f"{path}.__defaults__")
    if a.__kwdefaults__ or b.__kwdefaults__:
        t.same(a.__kwdefaults__, b.__kwdefaults__, f"{path}.__kwdefaults__")
    if a.__closure__ or b.__closure__:
        _same_cells(t, a, b, path)
    if a.__dict__ or b.__dict__:
        _same_dict(t, a.__dict__, b.__dict__, f"{path}.__dict__")


def _same_cells(t: Any, a: Any, b: Any, path: str) -> None:
    for i, (c, d) in enumerate(
        zip(a.__closure__ or (), b.__closure__ or (), strict=True)
    ):
        if a.__code__.co_freevars[i] == "cache_token":
            continue  # Of singledispatch: the process counts registrations.
        try:
            one, other = c.cell_contents, d.cell_contents
        except ValueError:
            continue
        t.same(one, other, f"{path}.__closure__[{i}]")


def _subclasses(kind: type) -> list[str]:
    """Names, but for a call's own classes, garbage that waits, and Mica's."""
    subclasses: list[type] = type.__subclasses__(kind)
    return [
        found.__qualname__
        for found in subclasses
        if "<locals>" not in found.__qualname__
        and not issubclass(found, _mica.Compiled)
    ]


def _same_class(t: Any, a: Any, b: Any, path: str) -> None:
    if a.__module__ not in DYNAMIC:
        t.fail(path, "is another class", a, b)
    if a.__qualname__ != b.__qualname__:
        t.fail(path, "is another class", a, b)
    if a.__bases__ != b.__bases__:
        t.same(a.__bases__, b.__bases__, f"{path}.__bases__")
    one, other = dict(vars(a)), dict(vars(b))
    if list(one) != list(other):
        t.fail(path, "has other attributes", list(one), list(other))
    for name, value in one.items():
        if name in _OWN_OF_CLASSES:
            continue
        theirs = other[name]
        if value is not theirs or type(value) in _LOOKED_INTO:
            t.same(value, theirs, f"{path}.{name}")
    ours, theirs = _subclasses(a), _subclasses(b)
    if ours != theirs:
        t.fail(f"{path}.__subclasses__()", "differs", ours, theirs)


_OWN_OF_CLASSES = {
    "_backward_cls",
    "_compiled_autograd_backward_state",
    "__dict__",
    "__weakref__",
    "__doc__",
    "_abc_impl",
    "__annotations__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__match_args__",
    "__slotnames__",
}


def _same_attributes(t: Any, a: Any, b: Any, path: str) -> None:
    try:
        ours = object.__getattribute__(a, "__dict__")
        theirs = object.__getattribute__(b, "__dict__")
    except AttributeError:
        ours, theirs = {}, {}
    if isinstance(ours, dict) and (ours or theirs):
        _same_dict(t, ours, theirs, path + ".__dict__")
    for kind in type(a).__mro__:
        names = vars(kind).get("__slots__")
        if not names:
            continue
        for name in (names,) if isinstance(names, str) else names:
            if name in ("__dict__", "__weakref__"):
                continue
            t.same(
                getattr(a, name, None), getattr(b, name, None), f"{path}.{name}"
            )


def _parts(names: str) -> Callable[..., None]:
    def check(t: Any, a: Any, b: Any, path: str) -> None:
        for name in names.split():
            t.same(getattr(a, name), getattr(b, name), f"{path}.{name}")

    return check


def _asked(ask: Callable[[Any], Any]) -> Callable[..., None]:
    def check(t: Any, a: Any, b: Any, path: str) -> None:
        t.same(ask(a), ask(b), path)

    return check


def _equal(ask: Callable[[Any], Any]) -> Callable[..., None]:
    def check(t: Any, a: Any, b: Any, path: str) -> None:
        one, other = ask(a), ask(b)
        # As texts where a part is NaN.
        if one != other and repr(one) != repr(other):
            t.fail(path, "differs in state", a, b)

    return check


def state_of(generator: Any) -> Any:
    """The state of numpy's generator, without arrays."""
    state = generator.get_state()
    return (state[1].tobytes(), *state[2:])


def _variables(context: contextvars.Context) -> dict[str, Any]:
    """The world's own, whose order is that of addresses."""
    names = {var.name: value for var, value in context.items()}
    return {name: names[name] for name in sorted(names) if name[0] in "Vv"}


def _same_array(t: Any, a: Any, b: Any, path: str) -> None:
    if a.shape != b.shape or a.dtype != b.dtype or a.strides != b.strides:
        t.fail(path, "differs in form", a, b)
    if a.tobytes() != b.tobytes() and (
        t.exact or not numpy.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
    ):
        t.fail(path, "differs", a, b)


def _same_text(t: Any, a: Any, b: Any, path: str) -> None:
    if show(a) != show(b):
        t.fail(path, "differs", a, b)


def _same_scalar(t: Any, a: Any, b: Any, path: str) -> None:
    if isinstance(a, numpy.floating) and not t.exact:
        t.same_floats(float(a), float(b), path)
    else:
        _same_text(t, a, b, path)


def _nothing(t: Any, a: Any, b: Any, path: str) -> None:
    pass


# Modules of classes that each world has for itself.
DYNAMIC = ("fuzz", "torch.nn.utils.parametrize")
CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
CHECKS: dict[type, Callable[..., None]] = {
    **dict.fromkeys(CONSTANTS, same_constant),
    torch.Tensor: _same_tensor,
    torch.nn.Parameter: _same_tensor,
    list: _same_list,
    tuple: _same_list,
    collections.deque: _same_list,
    dict: _same_dict,
    collections.OrderedDict: _same_dict,
    set: _same_set,
    frozenset: _same_set,
    types.FunctionType: _same_function,
    types.MethodType: _parts("__self__ __func__"),
    functools.partial: _parts("func args keywords"),
    staticmethod: _parts("__func__"),
    classmethod: _parts("__func__"),
    property: _parts("fget fset fdel"),
    types.MappingProxyType: _asked(dict),
    types.ModuleType: _parts("__dict__"),
    weakref.ReferenceType: _asked(lambda r: r()),
    weakref.WeakValueDictionary: _asked(lambda d: list(d.items())),
    weakref.WeakKeyDictionary: _asked(lambda d: list(d.items())),
    contextvars.Context: _asked(_variables),
    contextvars.ContextVar: _asked(lambda v: v.get(None)),
    functools._lru_cache_wrapper: _asked(lambda c: tuple(c.cache_info())),
    random.Random: _same_generator,
    numpy.random.RandomState: _equal(state_of),
    numpy.random.Generator: _equal(lambda r: r.bit_generator.state),
    torch.Generator: _asked(torch.Generator.get_state),
    numpy.ndarray: _same_array,
    itertools.count: _same_text,
    threading.local: _same_attributes,
    types.GeneratorType: _asked(lambda g: g.gi_frame and g.gi_frame.f_lasti),
    types.CellType: _nothing,
    types.GetSetDescriptorType: _nothing,
    types.MemberDescriptorType: _nothing,
}


_PLAIN_DICTS = frozenset((dict, collections.OrderedDict))
# Types of objects that are looked into even where both worlds have one.
_LOOKED_INTO = frozenset(CHECKS) - frozenset(CONSTANTS)


def check_of(kind: type) -> Callable[..., None]:
    """How two objects of a type are compared."""
    if issubclass(kind, _FUNCTIONS):
        return _same_text
    if issubclass(kind, type):
        return _same_class
    for base in kind.__mro__:
        if base in CHECKS:
            return CHECKS[base]
    if issubclass(kind, numpy.generic):
        return _same_scalar
    if issubclass(kind, BaseException) or kind.__module__ in (
        "decimal",
        "fractions",
        "torch",
        "itertools",
        "builtins",
    ):
        return _same_text
    return _same_attributes
