"""Code objects, taken apart and put together again."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

if sys.version_info >= (3, 13):
    from mica.pieces import opcodes_313 as own
elif sys.version_info >= (3, 12):
    from mica.pieces import opcodes_312 as own
else:
    from mica.pieces import opcodes_311 as own

__all__ = ["own"]

OPCODES = opcode.opmap


def _num_caches() -> list[int]:
    """Of each opcode: the units of memory behind it."""
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        return [entries.get(name, 0) for name in opcode.opname]
    return list(entries)


_CACHES = _num_caches()
# Of the place of the second of two instructions that the bytecode has as one.
SECOND_HALF = 1 << 28
_EXTENDED_ARG = OPCODES["EXTENDED_ARG"]
_RELATIVE = frozenset(opcode.hasjrel)
_MAX_RUN = 8  # Units that one entry of a line table stands for.

# Line, end line, column, end column.
Position = tuple[int | None, int | None, int | None, int | None]
NO_POSITION: Position = (None, None, None, None)


class Unsplittable(Exception):
    """A code object, or a place in it, that can't be cut; says why."""


@dataclass(slots=True)
class Handler:
    """Where an exception goes: what the exception table has.

    Attributes:
      at: The handler, by its index among the instructions.
      depth: Of the stack that it finds below the exception.
      lasti: Whether the place of the raise is pushed too.
    """

    at: int
    depth: int
    lasti: bool


@dataclass(slots=True)
class Instruction:
    """One instruction, its extended argument included.

    Attributes:
      at: Its first code unit; SECOND_HALF too, if it is the second of two.
      name: The opcode's.
      arg: Its argument; meaningless for a jump.
      target: Where it may jump, by index among the instructions.
      position: In the source.
      handler: Where its exceptions go.
    """

    at: int
    name: str
    arg: int
    target: int | None
    position: Position
    handler: Handler | None


class Unit:
    """The instructions of a code object.

    Attributes:
      code: It.
      instructions: In order; two jumps apart, indices are the places.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instructions: list[Instruction] = []
        self._index_of: list[int] = []
        self._decode()

    def index_of(self, at: int) -> int:
        """The instruction that a place belongs to."""
        index = self._index_of[at & ~SECOND_HALF]
        return index + 1 if at & SECOND_HALF else index

    def _decode(self) -> None:
        raw = self.code.co_code
        positions = list(self.code.co_positions())
        num_units = len(raw) // 2
        targets: list[int] = []
        unit = 0
        while unit < num_units:
            begin, arg = unit, raw[2 * unit + 1]
            while raw[2 * unit] == _EXTENDED_ARG:
                unit += 1
                arg = arg << 8 | raw[2 * unit + 1]
            op, name = raw[2 * unit], opcode.opname[raw[2 * unit]]
            position = positions[unit]
            unit += 1 + _CACHES[op]
            self._index_of += [len(self.instructions)] * (unit - begin)
            is_jump = op in _RELATIVE
            back = "BACKWARD" in name
            target = (unit - arg if back else unit + arg) if is_jump else -1
            for half, (what, of) in enumerate(own.halves(name, arg)):
                at = begin | SECOND_HALF if half else begin
                targets.append(target)
                self.instructions.append(
                    Instruction(at, what, of, None, position, None)
                )
        for instruction, target in zip(self.instructions, targets, strict=True):
            if target >= 0:
                instruction.target = self._index_of[target]
                if instruction.name == "FOR_ITER":
                    instruction.target += len(own.LOOP_END)
        for start, end, target, depth, lasti in _exception_table(self.code):
            handler = Handler(self._index_of[target], depth, lasti)
            for index in sorted(set(self._index_of[start:end])):
                self.instructions[index].handler = handler
            for instruction in self.instructions:
                if instruction.at & SECOND_HALF and (
                    start <= instruction.at & ~SECOND_HALF < end
                ):
                    instruction.handler = handler


def _exception_table(
    code: CodeType,
) -> Iterator[tuple[int, int, int, int, bool]]:
    table = iter(code.co_exceptiontable)

    def number() -> int:
        byte = next(table)
        value = byte & 63
        while byte & 64:
            byte = next(table)
            value = value << 6 | (byte & 63)
        return value

    while True:
        try:
            start = number()
        except StopIteration:
            return
        length, target, flags = number(), number(), number()
        yield start, start + length, target, flags >> 1, bool(flags & 1)


@dataclass(slots=True)
class _Item:
    op: int
    arg: int
    target: object | None
    position: Position
    handler: tuple[object, int, bool] | None
    origin: int


class Assembler:
    """A list of instructions under construction; labels are any objects."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._labels: dict[object, int] = {}

    def label(self, label: object) -> None:
        """Names the next instruction."""
        self._labels[label] = len(self._items)

    def emit(
        self,
        name: str,
        arg: int = 0,
        *,
        target: object | None = None,
        position: Position = NO_POSITION,
        handler: tuple[object, int, bool] | None = None,
        origin: int = -1,
    ) -> None:
        """Appends an instruction.

        Args:
          name: The opcode's.
          arg: Its argument, but for a jump.
          target: The label that a jump goes to.
          position: In the source.
          handler: The label, depth and lasti of an exception's way.
          origin: The code unit that it stands for; -1 for none.
        """
        self._items.append(
            _Item(OPCODES[name], arg, target, position, handler, origin)
        )

    def assemble(
        self, first_line: int
    ) -> tuple[bytes, bytes, bytes, list[int]]:
        """The bytecode, line table, exception table and origins by unit."""
        starts = self._place()
        code = bytearray()
        origins: list[int] = []
        lines = _LineTable(first_line)
        for index, item in enumerate(self._items):
            begin = len(code)
            for shift in range(self._extended(item), 0, -1):
                code += bytes((_EXTENDED_ARG, item.arg >> 8 * shift & 255))
            code += bytes((item.op, item.arg & 255))
            code += bytes(2 * _CACHES[item.op])
            units = (len(code) - begin) // 2
            assert begin // 2 == starts[index]
            origins += [item.origin] * units
            lines.add(units, item.position)
        return (
            bytes(code),
            bytes(lines.table),
            self._exceptions(starts),
            origins,
        )

    @staticmethod
    def _extended(item: _Item) -> int:
        return max(0, (item.arg.bit_length() - 1) // 8)

    def _place(self) -> list[int]:
        """Settles the jumps; where each instruction begins, and the end."""
        while True:
            starts = [0]
            for item in self._items:
                size = 1 + self._extended(item) + _CACHES[item.op]
                starts.append(starts[-1] + size)
            changed = False
            for index, item in enumerate(self._items):
                if item.target is None:
                    continue
                distance = starts[self._labels[item.target]] - starts[index + 1]
                back = "BACKWARD" in opcode.opname[item.op]
                # An argument never shrinks, so that this ends.
                arg = -distance if back else distance
                assert arg >= 0
                size = self._extended(item)
                item.arg = arg
                if self._extended(item) != size:
                    changed = True
            if not changed:
                return starts

    def _exceptions(self, starts: list[int]) -> bytes:
        table = bytearray()

        def put(value: int, mark: int = 0) -> None:
            groups = [value & 63]
            while value > 63:
                value >>= 6
                groups.append(value & 63 | 64)
            groups.reverse()
            groups[0] |= mark
            table.extend(groups)

        index, count = 0, len(self._items)
        while index < count:
            handler = self._items[index].handler
            end = index + 1
            while end < count and self._items[end].handler == handler:
                end += 1
            if handler is not None:
                label, depth, lasti = handler
                put(starts[index], 128)
                put(starts[end] - starts[index])
                put(starts[self._labels[label]])
                put(depth << 1 | int(lasti))
            index = end
        return bytes(table)


class _LineTable:
    def __init__(self, first_line: int) -> None:
        self.table = bytearray()
        self._line = first_line

    def add(self, units: int, position: Position) -> None:
        while units > 0:
            run = min(units, _MAX_RUN)
            self._add(run, position)
            units -= run

    def _add(self, units: int, position: Position) -> None:
        line, end_line, column, end_column = position
        if line is None:
            self.table.append(0x80 | 15 << 3 | units - 1)
            return
        known = end_line is not None and end_line >= line
        known = known and column is not None and end_column is not None
        self.table.append(0x80 | (14 if known else 13) << 3 | units - 1)
        delta = line - self._line
        self._line = line
        self._put(-delta << 1 | 1 if delta < 0 else delta << 1)
        if known:
            assert end_line is not None
            assert column is not None and end_column is not None
            self._put(end_line - line)
            self._put(column + 1)
            self._put(end_column + 1)

    def _put(self, value: int) -> None:
        while value > 63:
            self.table.append(value & 63 | 64)
            value >>= 6
        self.table.append(value)
