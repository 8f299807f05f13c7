"""What statements of programs are made of.

A line is a template; `;;` stands for a new line. What stands in braces is
filled in from left to right, see grammar.py: {t} any float tensor, {t2} one of
two dims, {h3} one whose last size is HID, {T} the last tensor again, {u} any
float tensor, {v} one that looks as {T} does; {d} a dim of it, {D} the same
again, {e} any dim; {s} its size in that dim, {z0} {z1} {zl} sizes of its
dims; {n} whole numbers made of sizes, {p} small positive ones, {c} a constant;
{f} floats made of sizes; {i} a tensor of indices; {new} {int} new names;
{cond} a condition of sizes; {keep} a statement that changes {y}'s values, no
shape. An expression without `=` gets a new name.
"""

from __future__ import annotations

import re

from size_fuzzing.computes import COMPUTES, INPLACE, MODULES, POOLS, PRODUCTS
from size_fuzzing.control import BRANCHES, INTS, STATE
from size_fuzzing.loops import LOOPS
from size_fuzzing.views import INDICES, MAKES, PARTS, VIEWS

FAMILIES = {
    "views": VIEWS,
    "parts": PARTS,
    "makes": MAKES,
    "computes": COMPUTES,
    "products": PRODUCTS,
    "indices": INDICES,
    "pools": POOLS,
    "modules": MODULES,
    "inplace": INPLACE,
    "branches": BRANCHES,
    "loops": LOOPS,
    "ints": INTS,
    "state": STATE,
}
# Families that each program draws from.
PREFERRED: list[str] = []


def leave_out(pattern: str) -> None:
    """Takes templates away, those of what is known to differ."""
    for name, lines in FAMILIES.items():
        FAMILIES[name] = "\n".join(
            one for one in lines.splitlines() if not re.search(pattern, one)
        )
