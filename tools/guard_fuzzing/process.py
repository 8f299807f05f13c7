"""Changes of what all worlds share: flags, patched functions, kernels."""

from __future__ import annotations

import contextlib
import decimal
import gc
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn

from guard_fuzzing.calls import MicaWarning
from guard_fuzzing.flags import Flag, find_flags
from guard_fuzzing.worlds import code_of, share_code

_METHODS = """\
__add__
__mul__
__rmul__
__radd__
__sub__
__matmul__
__truediv__
__getitem__
__neg__
__gt__
__iadd__
__pow__
__bool__
relu
sum
clone
view
item
detach
add_
mul_
backward
to
reshape
flatten
size
dim
float
mean""".splitlines()
_FUNCTIONS = [
    "relu",
    "tanh",
    "cat",
    "where",
    "stack",
    "full_like",
    "add",
    "sin",
    "ones_like",
]
_LAYERS = """\
nn.functional.linear
nn.functional.relu
nn.functional.gelu
nn.functional.layer_norm
nn.Linear.forward
nn.Module.__call__
nn.BatchNorm1d.forward
nn.PReLU.forward
nn.Identity.forward
optim.SGD.step
optim.Optimizer.zero_grad
autograd.backward
autograd.grad""".splitlines()
PATCHES = [
    *(f"torch.Tensor.{name}" for name in _METHODS),
    *(f"torch.{name}" for name in _FUNCTIONS),
    *(f"torch.{name}" for name in _LAYERS),
    "random.random",
    "random.Random.randint",
    "logging.Logger.info",
    "logging.Logger.isEnabledFor",
    "warnings.warn",
]
KERNELS = [
    "relu",
    "sin",
    "tanh",
    "add.Tensor",
    "mul.Tensor",
    "mm",
    "sum",
    "exp",
]
OTHERS = [
    "warnings.simplefilter('error'); "
    "warnings.simplefilter('ignore', MicaWarning)",
    "warnings.simplefilter('ignore')",
    "warnings.simplefilter('always')",
    "warnings.simplefilter('once')",
    "warnings.filterwarnings('ignore', 'fuzz')",
    "logging.root.setLevel(10)",
    "random.seed(5)",
    "torch.manual_seed(5)",
    "numpy.random.seed(5)",
    "hook_modules()",
    "gc.collect(0)",
    "torch.Tensor.tag = 1.0",
    "del torch.Tensor.tag",
    "torch.Tensor.fresh = property(lambda t: 1.0)",
    "torch.clear_autocast_cache()",
    "torch.nn.Parameter.tag = 2.0",
]


share_code("warn", globals())  # What is patched is called from here.

_LIBRARY: Any = torch.library.Library  # It has no types.


def _turned(value: Any) -> Any:
    if type(value) in (torch.Tensor, nn.Parameter):
        return torch.neg(value)
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, (int, float)) else value


class Process:
    """What this process has changed, and how it is put back."""

    def __init__(self) -> None:
        self.flags: list[Flag] = find_flags()
        self._known = {flag.read: flag for flag in self.flags}
        self._changed: dict[str, Flag] = {}
        self._undo: list[Callable[[], Any]] = []
        self._forwards = {
            kind: vars(kind)["forward"]
            for kind in vars(nn).values()
            if isinstance(kind, type) and "forward" in vars(kind)
        }
        self._names: dict[str, Any] = {
            "torch": torch,
            "nn": nn,
            "os": os,
            "gc": gc,
            "sys": sys,
            "random": random,
            "numpy": numpy,
            "logging": logging,
            "warnings": warnings,
            "decimal": decimal,
            "MicaWarning": MicaWarning,
            "set_flag": self._set_flag,
            "patch": self._patch,
            "kernel": self._kernel,
            "hook_modules": self._hook_modules,
        }
        for flag in self.flags:
            self._set(flag, flag.value)
        self.restore()

    def change(self, text: str) -> str:
        """Runs a change; returns its error's text."""
        with warnings.catch_warnings() if "torch" in text else _nothing():
            if "torch" in text:
                warnings.simplefilter("ignore")
            try:
                exec(code_of(text), self._names)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        return ""

    def restore(self) -> None:
        """Puts everything back."""
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        while self._undo:
            self._undo.pop()()
        for flag in self._changed.values():
            self._set(flag, flag.value)
        self._changed.clear()
        for name in ("tag", "fresh"):
            for kind in (torch.Tensor, nn.Parameter):
                if name in vars(kind):
                    delattr(kind, name)
        for module, forward in self._forwards.items():
            if vars(module).get("forward") is not forward:
                setattr(module, "forward", forward)  # noqa: B010
        warnings.resetwarnings()
        warnings.simplefilter("default")
        logging.root.setLevel(logging.WARNING)
        torch.set_grad_enabled(True)

    def _set(self, flag: Flag, value: str) -> None:
        exec(code_of(flag.write.replace("{v}", value)), self._names)

    def _set_flag(self, read: str, value: str) -> None:
        flag = self._known[read]
        self._changed[read] = flag
        self._set(flag, value)

    def _patch(self, path: str) -> None:
        owner_path, _, name = path.rpartition(".")
        owner: Any = eval(owner_path, self._names)
        own = name in vars(owner)
        before = getattr(owner, name)

        def patched(*args: Any, **kwargs: Any) -> Any:
            return _turned(before(*args, **kwargs))

        def undo() -> None:
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

        setattr(owner, name, patched)
        self._undo.append(undo)

    def _kernel(self, name: str) -> None:
        library: Any = _LIBRARY("aten", "IMPL")
        library.impl(name, lambda v, *rest, **named: torch.neg(v), "CPU")
        self._undo.append(library._destroy)

    def _hook_modules(self) -> None:
        def triple(module: nn.Module, args: Any, out: Any) -> Any:
            return out * 3 if isinstance(out, torch.Tensor) else out

        register: Any = nn.modules.module.register_module_forward_hook
        handle = register(triple)
        self._undo.append(handle.remove)


def _nothing() -> Any:
    return contextlib.nullcontext()
