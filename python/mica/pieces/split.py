"""Cuts a function at instructions that must leave its graph.

The state of a frame in mid-run is a row of slots: its variables, as the code
object numbers them, and above them the value stack. A piece is a function made
of the bytecode of the one that is split: it takes slots, goes on at one
instruction and ends at the next graph break, or where the function ends. It
returns `(None, result)` there, and at a graph break `(id, unread, *slots)`.

A watched piece takes no more than it reads and tells no more than it changed,
so that what only passes through, an iterator say, needs no guard. What it
changed and nobody reads any more is told in the tuple `unread`, since it has to
live on as in the function: a record has None for what may as well die. A plain
piece runs one step, an instruction that can't be recorded, with the whole
state.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType

from mica.pieces.bytecode import Unsplittable
from mica.pieces.flow import function_flow
from mica.pieces.piece import Piece
from mica.pieces.writer import UNBOUND, Writer

__all__ = ["UNBOUND", "Unsplittable", "build", "function_flow", "steps"]


def steps(code: CodeType, places: Iterable[int]) -> frozenset[int]:
    """The steps that follow from cutting a code object.

    Args:
      code: Of a function.
      places: Code units of the instructions that can't be recorded.
    Returns:
      The first code unit of each instruction to be run plainly.
    Raises:
      Unsplittable: It can't be cut there.
    """
    function = function_flow(code)
    found = function.steps(places)
    return frozenset(function.instructions[i].at for i in found)


def build(
    original: FunctionType,
    entry: int,
    places: Iterable[int],
    bound: Iterable[int],
    plain: bool,
) -> tuple[object, ...]:
    """Makes a piece.

    Args:
      original: The function that is cut.
      entry: The code unit where it goes on; -1 - unit for a handler with its
        exception on the stack, or for any other, to go on to the end.
      places: What steps() gave.
      bound: The slots that have a value at the entry.
      plain: Whether it runs the step at `entry`; else up to the next.
    Returns:
      The function; the slots that it takes, in order; of each exit, by id, the
      depth of the stack, the slots told, the slots that are nulls and those
      told that nobody reads; of each code unit of the piece the original's,
      or -1; and the variables that have a value at the entry and may lose it,
      each with the original's code unit.
    Raises:
      Unsplittable: It can't be made.
    """
    function = function_flow(original.__code__)
    to_end = entry < 0
    index = function.unit.index_of(-1 - entry if to_end else entry)
    piece = Piece(
        function,
        index,
        frozenset(function.unit.index_of(at) for at in places),
        sum(1 << slot for slot in bound),
        plain=plain or to_end,
        to_end=to_end,
    )
    return Writer(piece).write(original)
