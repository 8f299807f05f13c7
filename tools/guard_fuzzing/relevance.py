"""Which changes concern a program: those that share a word with its text.

A word is an identifier without its outer underscores. Signs and built-in
functions stand for the methods that Python calls for them.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")

_WORD = re.compile(r"[A-Za-z_]\w*")
# Words that say nothing: names of parts, and what every program has.
_IDLE = """\
p a o v x y z k C torch extra return lambda self Tensor None True False in is if
else for and or not no with import as to data detach nn functional optim
autograd backends"""
_COMMON = frozenset(_IDLE.split())
# What Python calls for a sign.
_SIGNS = {
    r" \+ ": "add radd",
    r" - ": "sub rsub",
    r" \* ": "mul rmul",
    r" / ": "truediv rtruediv",
    r" \*\* ": "pow",
    r" @ ": "matmul",
    r"\+=": "iadd add",
    r"\*=": "imul mul",
    r" > ": "gt lt",
    r" < ": "lt gt",
    r" == | in |index|count|remove": "eq contains hash",
    r" != ": "ne eq",
    r"[({[ ]-[a-z]": "neg",
    r"[\w)]\[": "getitem",
    r"\bif |\bnot | or | and |bool\(|any\(|all\(": "bool len",
}
# What the outcome of a function may hang on.
_ASKS = {
    "isinstance": "class register instancecheck subclasshook bases",
    "issubclass": "class register subclasshook bases",
    "type": "class",
    "gain_of": "class register",
    "subclasses": "class",
    "mro": "class bases",
    "name": "name qualname",
    "hasattr": "getattr del",
    "vars": "dict",
    "dir": "dict",
    "str": "str repr",
    "repr": "repr",
    "copy": "copy reduce",
    "deepcopy": "deepcopy reduce",
    "sorted": "lt",
    "max": "gt",
    "min": "lt",
    "len": "len",
    "sum": "iter radd",
    "list": "iter",
    "locals": "dict",
    "copy_context": "VAR",
    "STILL": "inference_mode",
    "REF": "OWNER",
    "WEAK": "OWNER",
    "backward": "grad",
    "Decimal": "decimal",
    "LIN": "Linear linear",
    "BN": "BatchNorm1d",
    "OPT": "SGD Optimizer",
    "OUTER": "PReLU Identity",
    "LOG": "Logger logging",
    "localcontext": "decimal",
}


@functools.lru_cache(maxsize=4096)
def words_of(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(w.strip("_") for w in _WORD.findall(text)) - _COMMON


def asked_by(text: str) -> frozenset[str]:
    """The words of a program's text, and of what it calls."""
    found = set(words_of(text))
    for sign, names in _SIGNS.items():
        if re.search(sign, text):
            found.update(names.split())
    for word in found & set(_ASKS):
        found.update(_ASKS[word].split())
    return frozenset(found)


def choose(
    rng: random.Random,
    among: Sequence[_T],
    asked: frozenset[str],
    text: Callable[[_T], str] = str,
) -> _T:
    """One of `among`, half of the time one that shares a word."""
    if rng.random() < 0.5:
        near = [one for one in among if words_of(text(one)) & asked]
        if near:
            return rng.choice(near)
    return rng.choice(among)
