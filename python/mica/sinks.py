"""Calls into the world outside that run no code of the user's.

A record makes such a call again at each hit. What `print`, a logger or
`warnings.warn` does there is known only while all that it goes by is Python's
own: the stream, the handlers, their formatters, what shows a warning. Anything
else is the user's code, which may read and change whatever the program does.
"""

from __future__ import annotations

import functools
import io
import logging
import logging.handlers
import re
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_STREAM_BASES = (io.TextIOWrapper, io.StringIO)
_STREAM_MODULES = {"_pytest.capture"}  # Streams that only keep what they get.
_STREAM_WORDS = {
    *("__bool__", "__getattr__", "__getattribute__", "__len__", "buffer"),
    *("closed", "encoding", "errors", "flush", "isatty", "write", "writelines"),
}
_BINARY = (io.BufferedWriter, io.BufferedRandom)
_ERRORS = {
    *("strict", "ignore", "replace", "xmlcharrefreplace", "backslashreplace"),
    *("namereplace", "surrogateescape", "surrogatepass"),
}

_HANDLERS = (
    logging.StreamHandler,
    logging.FileHandler,
    logging.NullHandler,
    type(logging.lastResort),
    logging.handlers.RotatingFileHandler,
    logging.handlers.TimedRotatingFileHandler,
    logging.handlers.WatchedFileHandler,
)
_FORMATTERS = (logging.Formatter,)
_STYLES: tuple[type, ...] = (
    logging.PercentStyle,
    logging.StrFormatStyle,
    logging.StringTemplateStyle,
)
_LOGGING_MODULES = {"_pytest.logging", "torch._logging._internal"}
_LOGGING_WORDS = frozenset(
    word
    for kind in (*_HANDLERS, *_FORMATTERS, *_STYLES, logging.Logger)
    for base in kind.__mro__
    for word, value in vars(base).items()
    if callable(value)
) - {"converter"}

_CONSTANTS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    torch.dtype,
    torch.device,
    torch.Size,
    torch.layout,
    torch.memory_format,
    range,
    slice,
    type(...),
)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, OrderedDict)
_MAX_DEPTH = 8

# What libraries set as warnings.formatwarning when they are imported: of a
# warning's own parts, these make a text.
_FORMS_OF_WARNINGS = {
    (f"{package}.warnings", "_custom_format_warning")
    for package in ("lightning.fabric.utilities", "lightning_fabric.utilities")
}

_show_message = warnings._showwarnmsg  # type: ignore[attr-defined]
_write_message = warnings._formatwarnmsg  # type: ignore[attr-defined]


def is_plain_stream(stream: Any) -> bool:
    """Whether what is written to a stream runs no code of the user's.

    Args:
      stream: A text stream, or None, to which nothing is written.
    """
    if stream is None:
        return True
    kind = type(stream)
    if kind not in _STREAM_BASES and not _adds_nothing(kind):
        return False
    if not _STREAM_WORDS.isdisjoint(stream.__dict__):
        return False
    if isinstance(stream, io.StringIO):
        return True
    try:
        if stream.errors not in _ERRORS:
            return False
        below = stream.buffer
        if type(below) in _BINARY:
            if vars(below):
                return False
            below = below.raw
    except ValueError:  # Detached.
        return False
    if type(below) is io.BytesIO:
        return not vars(below)
    return type(below) is io.FileIO and _STREAM_WORDS.isdisjoint(vars(below))


def _adds_nothing(kind: type) -> bool:
    """Whether a known class of streams writes as the one that it builds on."""
    if not issubclass(kind, _STREAM_BASES):
        return False
    for base in kind.__mro__:
        if base in _STREAM_BASES:
            return True
        if base.__module__ not in _STREAM_MODULES:
            return False
        if not _STREAM_WORDS.isdisjoint(vars(base)):
            return False
    return False


def is_plain_print(file: Any) -> bool:
    """Whether print() runs no code of the user's.

    Args:
      file: Where to; None for standard output as it is now.
    """
    if file is None:
        try:
            file = sys.stdout
        except AttributeError:
            return False
    return is_plain_stream(file)


def is_plain_warning() -> bool:
    """Whether showing a warning runs no code of the user's."""
    shown: Any = warnings
    if (
        shown.showwarning is not shown._showwarning_orig
        or shown._showwarnmsg is not _show_message
    ):
        return False
    if warning_list() is not None:
        return True
    form = shown.formatwarning
    if shown._formatwarnmsg is not _write_message or (
        form is not shown._formatwarning_orig
        and (getattr(form, "__module__", ""), getattr(form, "__name__", ""))
        not in _FORMS_OF_WARNINGS
    ):
        return False
    write = shown._showwarnmsg_impl
    return getattr(write, "__module__", "") == "warnings" and is_plain_stream(
        sys.stderr
    )


def warning_list() -> list[Any] | None:
    """The list in which catch_warnings(record=True) keeps warnings, if so."""
    keep: Any = warnings._showwarnmsg_impl  # type: ignore[attr-defined]
    kept = getattr(keep, "__self__", None)
    is_list = type(kept) is list and keep == kept.append
    return kept if is_list else None


def is_plain_log(logger: Any, level: int | None) -> bool:
    """Whether what a logger is told runs no code of the user's.

    Args:
      logger: Any logger.
      level: Of the message; None if it isn't known.
    """
    if not _is_own(logger, (logging.Logger, logging.RootLogger)):
        return False
    if level is not None and not logger.isEnabledFor(level):
        return True
    if (
        logging._logRecordFactory is not logging.LogRecord  # type: ignore[attr-defined]
        or logger.filters
    ):
        return False
    found = 0
    node: Any = logger
    while node is not None:
        if not _is_own(node, (logging.Logger, logging.RootLogger)):
            return False
        found += len(node.handlers)
        if not all(map(_is_plain_handler, node.handlers)):
            return False
        node = node.parent if node.propagate else None
    return bool(found) or _is_plain_handler(logging.lastResort)


def parts_of_log(logger: Any) -> list[Any]:
    """The dicts and lists that a logger, and what it tells, goes by."""
    parts: list[Any] = [vars(logging)]
    node: Any = logger
    while isinstance(node, logging.Logger):
        parts += [vars(node), node.handlers, node.filters, vars(node.manager)]
        for handler in node.handlers:
            parts.append(vars(handler))
            if getattr(handler, "formatter", None) is not None:
                parts.append(vars(handler.formatter))
        node = node.parent
    return parts


def _is_own(thing: Any, kinds: tuple[type, ...]) -> bool:
    """Whether an object of logging's has no methods of its own."""
    kind = type(thing)
    return (
        kind in kinds or kind.__module__ in _LOGGING_MODULES
    ) and _LOGGING_WORDS.isdisjoint(vars(thing))


def _is_plain_handler(handler: Any) -> bool:
    if handler is None:
        return True
    if not _is_own(handler, _HANDLERS) or handler.filters:
        return False
    if isinstance(handler, logging.NullHandler):
        return True
    if isinstance(handler, logging.handlers.BaseRotatingHandler) and (
        handler.namer or handler.rotator
    ):
        return False
    formatter = handler.formatter
    if formatter is not None and not _is_plain_formatter(formatter):
        return False
    stream = getattr(handler, "stream", None)
    # Of an error, logging shows the functions that are under way.
    return is_plain_stream(stream) and not getattr(stream, "closed", False)


def _is_plain_formatter(formatter: Any) -> bool:
    if not _is_own(formatter, _FORMATTERS):
        return False
    style = formatter._style
    return (
        _is_own(style, _STYLES)
        or style.__class__.__module__ == "_pytest.logging"
    ) and type(style._fmt) is str


def is_plain_value(value: Any, depth: int = 0) -> bool:
    """Whether text of an object follows from constants that it holds."""
    kind = type(value)
    if kind in _CONSTANTS or _is_numpy_scalar(kind):
        return True
    if kind not in _CONTAINERS or depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(
            is_plain_value(key, depth + 1) and is_plain_value(item, depth + 1)
            for key, item in value.items()
        )
    return all(is_plain_value(item, depth + 1) for item in value)


def _is_numpy_scalar(kind: type) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return (
        kind.__module__ == "numpy"
        and numpy is not None
        and issubclass(kind, numpy.generic)
    )


def containers_in(value: Any, depth: int = 0) -> list[Any]:
    """The containers behind a plain value, itself the first."""
    if type(value) not in _CONTAINERS or depth > _MAX_DEPTH:
        return []
    items = value.values() if isinstance(value, dict) else value
    return [value] + [
        inner for item in items for inner in containers_in(item, depth + 1)
    ]


class Shown:
    """A tensor's values, with the text that autograd's tensor had.

    A record's own results have another history than eager's tensors, which
    `print` would show.
    """

    def __init__(self, prefix: str, suffix: str, values: torch.Tensor) -> None:
        self._prefix, self._suffix, self._values = prefix, suffix, values

    def __repr__(self) -> str:
        return self._prefix + _with_suffix(str(self._values), self._suffix)

    def __format__(self, spec: str) -> str:
        if not self._values.dim():
            return format(self._values.item(), spec)
        return format(repr(self), spec)

    def __float__(self) -> float:
        return float(self._values)

    def __int__(self) -> int:
        return int(self._values)

    def __index__(self) -> int:
        return self._values.__index__()


def _with_suffix(text: str, suffix: str) -> str:
    """`text` of a tensor with one more remark, wrapped as torch wraps it."""
    body = text[:-1]
    line = body[body.rfind("\n") + 1 :]
    is_wrapped = re.match(r" +(size|dtype|device)=", line) is not None
    length = len(line) if is_wrapped else len(line) + 2
    width = torch._tensor_str.PRINT_OPTS.linewidth
    if length + len(suffix) + 2 > width:
        indent = len("tensor(")
        return f"{body},\n{' ' * indent}{suffix})"
    return f"{body}, {suffix})"


def shown(tensor: torch.Tensor) -> Callable[[torch.Tensor], Shown] | None:
    """What makes of a detached copy something with the text of `tensor`.

    Returns:
      A function of the copy; None where the copy itself has that text.
    """
    if not tensor.requires_grad:
        return None
    prefix, suffix = "", "requires_grad=True"
    if isinstance(tensor, torch.nn.Parameter):
        prefix = "Parameter containing:\n"
    elif tensor.grad_fn is not None:
        name = type(tensor.grad_fn).__name__
        if name == "CppFunction":
            name = tensor.grad_fn.name().rsplit("::", 1)[-1]
        suffix = f"grad_fn=<{name}>"
    return functools.partial(Shown, prefix, suffix)


def is_plain_call(
    kind: str,
    target: Any,
    level: int | None,
    values: Sequence[Any],
) -> bool:
    """Whether a call into the world outside runs no code of the user's.

    Args:
      kind: "print", "log" or "warning".
      target: The file printed to, or the logger.
      level: The message's.
      values: Containers among the arguments.
    """
    for value in values:
        if not is_plain_value(value):
            return False
    if kind == "print":
        return is_plain_print(target)
    if kind == "log":
        return is_plain_log(target, level)
    return is_plain_warning()


def _classes() -> Mapping[str, type]:
    kinds: dict[str, type] = {}
    for kind in (*_HANDLERS, *_FORMATTERS, *_STYLES):
        for base in kind.__mro__[:-1]:
            kinds[base.__qualname__] = base
    for kind in (logging.Logger, logging.RootLogger, logging.LogRecord):
        kinds[kind.__qualname__] = kind
    return kinds


# The classes whose methods run when a logger is told something.
LOGGING_CLASSES = tuple(_classes().values())
