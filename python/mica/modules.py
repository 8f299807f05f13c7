"""Classes of compiled modules.

What `mica.compile` makes of a module is an instance of a subclass of the
module's class, so that `isinstance`, methods, properties and `super()` are as
ever; its `__dict__` is the module's own (compiled_module.cc, which asks for the
classes here).
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from mica import _mica, copies

_classes: weakref.WeakKeyDictionary[type, weakref.ref[type]] = (
    weakref.WeakKeyDictionary()
)


def compiled_class(cls: type) -> type:
    """The class of what is compiled of modules of a class.

    Args:
      cls: A subclass of torch.nn.Module.
    Returns:
      A class of the same name, of which only `mica.compile` makes instances.
    Raises:
      TypeError: Python can't derive from the class and another one.
    """
    known = _classes.get(cls)
    made = known() if known is not None else None
    if made is None:
        made = _make(cls)
        _classes[cls] = weakref.ref(made)
    return made


def _make(cls: type) -> type:
    names: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__repr__": _repr,
        "__reduce_ex__": copies.reduce,
        "__copy__": copies.shallow,
        "__deepcopy__": copies.deep,
        "__prepare_scriptable__": _refuse_script,
    }
    if issubclass(cls, torch.fx.GraphModule):
        names["recompile"] = _recompile
    # Past the metaclass's own __new__, which may keep a list of classes.
    made: type = type.__new__(
        type(cls), cls.__name__, (_mica.CompiledModule, cls), names
    )
    _mica.finish_module_class(made)
    return made


def _repr(module: _mica.Compiled) -> str:
    return f"mica.compile({module.__wrapped__!r})"


def _refuse_script(module: _mica.Compiled) -> Any:
    """Torch asks this of all modules before it makes TorchScript of them."""
    raise TypeError(
        f"torch.jit.script: this {type(module).__name__} is compiled by Mica; "
        "script the module inside, its __wrapped__"
    )


def _recompile(module: _mica.Compiled) -> Any:
    """Of a GraphModule, which writes its code into its own class."""
    inside: Any = module.__wrapped__
    return inside.recompile()
