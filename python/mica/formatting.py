"""Formats that show tensors by their numbers, in Python.

A watched run formats so in place of C code: what a tensor of no dims shows is a
number that is read of it, and followed.
"""

from __future__ import annotations

from typing import Any

import torch

from mica import in_python

# As they are before the program replaces any.
_dict, _list, _tuple, _type = dict, list, tuple, type
_Tensor = torch.Tensor
_text_of = in_python.text_of


def _number_in(value: Any) -> Any:
    """A tensor's number, as Tensor.__format__() takes it; else itself."""
    if _type(value) is _Tensor and value.dim() == 0:
        return value.detach().item()
    return value


def _shown(value: Any) -> Any:
    """What a field of `str.format` shows of it alike; see format_text()."""
    kind = _type(value)
    if kind is _dict or kind is _list or kind is _tuple:
        return _text_of(value)
    return _number_in(value)


def format_text(text: str, /, *values: Any, **named: Any) -> str:
    """`text.format(*values, **named)`, of tensors and containers by numbers.

    Args:
      text: Its fields have neither conversions nor names of attributes, nor, if
        there are containers of numbers, specs.
      *values: At least one of them, or
      **named: of these, is a tensor of no dims or a container of numbers.
    """
    return text.format(
        *[_shown(value) for value in values],
        **{name: _shown(value) for name, value in named.items()},
    )


class Formatting:
    """A text of which `formatting % values` shows tensors by their numbers.

    Attributes:
      text: What is shown of a tensor is a number of its own, by `%f` or its
        like.
    """

    __slots__ = ("text",)

    text: str

    def __mod__(self, values: Any) -> Any:
        if _type(values) is not _tuple:
            return self.text % _number_in(values)
        return self.text % (*[_number_in(value) for value in values],)
