"""What torch and Python hold for the whole process, and how it is changed.

The flags are found, not listed: whatever torch has a getter without arguments
for, and a setter that takes what the getter gave.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

# Setting them costs much, ends the process's freedom, or prints.
_LEFT_OUT = re.compile(
    r"cuda|mps|xpu|mtia|num_threads|interop|compile|dynamo|vmap_fallback|rng|"
    r"printoptions|default_tensor_type|crash|device_module|sync_debug|"
    r"seed|profil|storage|jit|meta|callback|cache_enabled|nccl|hip|"
    r"quantized|blas|conj|future|swap_module|linalg|torch_function|logger"
)
_MODULES = ("torch", "torch._C", "torch.autograd", "torch.backends.mkldnn")
_CONSTANTS = (bool, int, str, torch.dtype)
_OTHERS: dict[Any, list[Any]] = {
    torch.float32: [torch.float64],
    torch.bfloat16: [torch.float16],
    torch.float16: [torch.bfloat16],
    "highest": ["high"],
    "warn": ["nothing"],
}


@dataclasses.dataclass(frozen=True)
class Flag:
    """A getter's text, its value, and what else it may be set to.

    Attributes:
      read: An expression.
      write: A statement; `{v}` is the value.
      values: Texts of other values.
      value: Text of the value that it has.
    """

    read: str
    write: str
    value: str
    values: tuple[str, ...]


def _text(value: Any) -> str:
    return str(value) if isinstance(value, torch.dtype) else repr(value)


def _setters(name: str) -> Iterator[str]:
    bare = re.sub(r"^_?(get_|is_|are_)", "", name)
    for stem in {bare, re.sub(r"_enabled$", "", bare)}:
        for form in ("set_{}", "_set_{}", "set_{}_enabled", "_set_{}_enabled"):
            yield form.format(stem)
    yield name.replace("get_", "set_", 1)


def _needs_arguments(getter: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(getter).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.default is p.empty for p in parameters)


def _try_flag(module: Any, prefix: str, name: str) -> Flag | None:
    getter = getattr(module, name)
    if _LEFT_OUT.search(name) or not callable(getter):
        return None
    if isinstance(getter, type) or _needs_arguments(getter):
        return None
    try:
        before = getter()
    except Exception:
        return None
    if not isinstance(before, _CONSTANTS):
        return None
    others: list[Any] = (
        [not before] if isinstance(before, bool) else _OTHERS.get(before, [])
    )
    for setter_name in _setters(name) if others else ():
        setter = getattr(module, setter_name, None)
        if setter is None or isinstance(setter, type):
            continue
        try:
            setter(others[0])
            seen = getter()
            setter(before)
        except Exception:
            continue
        if seen == others[0] and getter() == before:
            return Flag(
                f"{prefix}.{name}()",
                f"{prefix}.{setter_name}({{v}})",
                _text(before),
                tuple(map(_text, others)),
            )
    return None


def _attribute_flags() -> Iterator[Flag]:
    """Flags that are attributes of torch's modules of back ends."""
    for path in (
        "torch.backends.mkldnn.enabled",
        "torch.backends.cudnn.enabled",
        "torch.backends.cudnn.benchmark",
        "torch.backends.cudnn.deterministic",
        "torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.opt_einsum.enabled",
    ):
        owner, _, name = path.rpartition(".")
        value = getattr(
            functools.reduce(getattr, owner.split("."), _ROOT), name
        )
        yield Flag(path, f"{path} = {{v}}", str(value), (str(not value),))


class _Root:
    torch = torch


_ROOT: Any = _Root()


# Those whose getters or setters take more, and Python's own.
_MORE = [
    Flag(
        "torch.is_anomaly_enabled()",
        "torch.autograd.set_detect_anomaly({v})",
        "False",
        ("True",),
    ),
    Flag(
        "torch.is_anomaly_check_nan_enabled()",
        "torch._C.set_anomaly_enabled(False, {v})",
        "True",
        ("False",),
    ),
    Flag(
        "torch.are_deterministic_algorithms_enabled()",
        "torch.use_deterministic_algorithms({v}, warn_only=True)",
        "False",
        ("True",),
    ),
    Flag(
        "torch.utils.deterministic.fill_uninitialized_memory",
        "torch.utils.deterministic.fill_uninitialized_memory = {v}",
        "True",
        ("False",),
    ),
    Flag(
        "decimal.getcontext().prec",
        "decimal.getcontext().prec = {v}",
        "28",
        ("2", "6"),
    ),
    Flag(
        "decimal.getcontext().rounding",
        "decimal.getcontext().rounding = {v}",
        "'ROUND_HALF_EVEN'",
        ("'ROUND_UP'",),
    ),
    Flag(
        "sys.getrecursionlimit()",
        "sys.setrecursionlimit({v})",
        "1000",
        ("1500",),
    ),
    Flag(
        "sys.getswitchinterval()",
        "sys.setswitchinterval({v})",
        "0.005",
        ("0.01",),
    ),
    Flag(
        "logging.root.manager.disable",
        "logging.disable({v})",
        "0",
        ("20", "30"),
    ),
    Flag(
        "gc.isenabled()",
        "(gc.enable if {v} else gc.disable)()",
        "False",
        ("True",),
    ),
    Flag(
        "os.environ.get('FUZZ')",
        "os.environ.__setitem__('FUZZ', {v})",
        "''",
        ("'1'", "'gain'"),
    ),
]


def _other_flags() -> Iterator[Flag]:
    """Flags that no pair of names gives."""
    for kind in ("cpu", "cuda", "xpu"):
        yield Flag(
            f"torch.get_autocast_dtype('{kind}')",
            f"torch.set_autocast_dtype('{kind}', {{v}})",
            str(torch.get_autocast_dtype(kind)),
            ("torch.float16", "torch.bfloat16"),
        )
        yield Flag(
            f"torch.is_autocast_enabled('{kind}')",
            f"torch.set_autocast_enabled('{kind}', {{v}})",
            "False",
            ("True",),
        )
    yield from _MORE


def find_flags() -> list[Flag]:
    """All flags; each has the value that it has now."""
    found: dict[str, Flag] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for prefix in _MODULES:
            module = functools.reduce(getattr, prefix.split("."), _ROOT)
            for name in sorted(dir(module)):
                if re.match(r"_?(get|is|are)_", name):
                    flag = _try_flag(module, prefix, name)
                    if flag is not None:
                        found[flag.read] = flag
    for flag in (*_attribute_flags(), *_other_flags()):
        found[flag.read] = flag
    return list(found.values())
