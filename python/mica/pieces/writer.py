"""Writes pieces of functions as functions of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType

from mica.pieces.bytecode import Assembler, Unsplittable, own
from mica.pieces.flow import VARARGS, VARKEYWORDS, Stack
from mica.pieces.opcodes import LOCAL_OPS
from mica.pieces.piece import Piece, Rest

# What a variable without a value is, in a row of slots. Compared by identity.
UNBOUND = " ".join(("<no", "value>"))


@dataclass
class _Exit:
    """One way out of a piece.

    Attributes:
      depth: Of the stack then.
      values: The slots told, in order.
      nulls: Slots that have no value, nulls of the stack among them.
      unread: The slots told that nobody reads any more.
    """

    depth: int
    values: list[int] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)


class Writer:
    """Writes a piece's code object."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.function = piece.function
        self.instructions = piece.instructions
        self.assembler = Assembler()
        self.constants = list(self.function.code.co_consts)
        self.exits: dict[int, _Exit] = {}
        self.params = piece.find_params()
        self.num_temporaries = 0
        self.num_told = 0
        self.maybes: list[tuple[object, object]] = []
        self.loop_ends: list[int] = []

    def write(self, original: FunctionType) -> tuple[object, ...]:
        """The piece, with what a caller has to know: see split.build()."""
        piece, code = self.piece, self.function.code
        self._place_variables()
        self._write_entry()
        for index in sorted(piece.rests):
            self.assembler.label(index)
            if index in piece.exits:
                self._write_exit(index)
            else:
                self._write_instruction(index)
        for at in sorted(piece.landing_pads & piece.handler_states.keys()):
            self._write_landing_pad(at)
        for index in self.loop_ends:
            self._write_loop_end(index)
        for label, back in self.maybes:
            self.assembler.label(label)
            self.assembler.emit("POP_TOP")
            self.assembler.emit("LOAD_CONST", self._constant(UNBOUND))
            self.assembler.emit("JUMP_BACKWARD", target=back)
        raw, lines, exceptions, origins = self.assembler.assemble(
            code.co_firstlineno
        )
        flags = code.co_flags & ~(VARARGS | VARKEYWORDS)
        made = code.replace(
            co_argcount=len(self.params),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_nlocals=len(self.variables),
            co_stacksize=code.co_stacksize + self.num_told + 4,
            co_flags=flags,
            co_code=raw,
            co_consts=tuple(self.constants),
            co_varnames=tuple(self.variables),
            co_cellvars=tuple(self.cells),
            co_linetable=lines,
            co_exceptiontable=exceptions,
        )
        made_function = FunctionType(
            made,
            original.__globals__,
            original.__name__,
            None,
            original.__closure__,
        )
        made_function.__qualname__ = original.__qualname__
        exits = {
            key: (way.depth, *map(tuple, (way.values, way.nulls, way.unread)))
            for key, way in self.exits.items()
        }
        lets_go = tuple(self._lets_go())
        return made_function, tuple(self.params), exits, tuple(origins), lets_go

    def _lets_go(self) -> Iterable[tuple[int, int]]:
        """Variables of the entry that the piece gives another value, or none.

        With the code units where it does; their own values may die there.
        """
        piece = self.piece
        for index in sorted(piece.rests.keys() - piece.exits):
            instruction = self.instructions[index]
            if piece.is_binding(index) and piece.bound >> instruction.arg & 1:
                yield instruction.arg, instruction.at

    def _place_variables(self) -> None:
        """Numbers the piece's own variables: parameters first."""
        function, piece = self.function, self.piece
        names, count = function.names, function.num_locals
        cells = set(function.code.co_cellvars)
        self.variables: list[str] = []
        place: dict[int, int] = {}
        for slot in self.params:
            place[slot] = len(self.variables)
            is_local = slot < count
            name = names[slot] if is_local else f".stack{slot - count}"
            self.variables.append(name)
        for slot in range(count):
            if slot not in place and names[slot] not in cells:
                place[slot] = len(self.variables)
                self.variables.append(names[slot])
        num_temporaries = max(
            (len(rest) for rest in piece.rests.values()), default=0
        )
        num_temporaries += 2
        self.temporaries = range(
            len(self.variables), len(self.variables) + num_temporaries
        )
        self.variables += [f".temporary{i}" for i in range(num_temporaries)]
        # A cell that comes in is the variable's value, and one of a cell's
        # kind all the same: super() and locals() look into it.
        self.cells = [name for name in names if name in cells]
        free = len(self.variables)
        for slot in range(count):
            if slot not in place:
                place[slot] = free
                free += 1
        own = [c for c in self.cells if c not in self.variables]
        assert free - len(self.variables) == len(own)
        for i in range(len(function.code.co_freevars)):
            place[count + i] = free + i
        self.place = place

    def _constant(self, value: object) -> int:
        for index, known in enumerate(self.constants):
            if known is value:
                return index
        self.constants.append(value)
        return len(self.constants) - 1

    def _write_entry(self) -> None:
        piece, emit = self.piece, self.assembler.emit
        if piece.entry == 0:
            return  # It begins as the function does.
        if self.function.code.co_freevars:
            emit("COPY_FREE_VARS", len(self.function.code.co_freevars))
        position = self.instructions[piece.entry].position
        emit("RESUME", position=position)
        self._write_cells()
        stack = self.function.stacks[piece.entry]
        assert stack is not None
        count = self.function.num_locals
        for i in range(piece.base, len(stack)):
            if not piece.has_operand(i):
                emit("PUSH_NULL")
                continue
            # No reference more than the frame had.
            parameter = self.params.index(count + i)
            emit("LOAD_FAST", parameter)
            emit("DELETE_FAST", parameter)
        if piece.entry != min(piece.rests):
            emit("JUMP_FORWARD", target=piece.entry)

    def _write_cells(self) -> None:
        """Makes locals() look into the cells that come in.

        It takes a variable for a cell if an instruction before the frame's own
        makes it one. The cells are made: that instruction is passed over.
        """
        incoming = [
            self.place[slot]
            for slot in self.params
            if slot < self.function.num_locals
            and self.function.names[slot] in self.cells
        ]
        if not incoming:
            return
        self.assembler.emit("JUMP_FORWARD", target="behind the cells")
        for place in incoming:
            self.assembler.emit("MAKE_CELL", place)
        self.assembler.label("behind the cells")

    def _handler(self, index: int) -> tuple[object, int, bool] | None:
        handler = self.instructions[index].handler
        if handler is None:
            return None
        if handler.at in self.piece.landing_pads:
            depth = max(handler.depth - self.piece.base, 0)
            return ("landing pad", handler.at), depth, handler.lasti
        return handler.at, handler.depth - self.piece.base, handler.lasti

    def _write_instruction(self, index: int) -> None:
        instruction = self.instructions[index]
        name, arg = instruction.name, instruction.arg
        position, handler = instruction.position, self._handler(index)
        origin = instruction.at

        def emit(name: str, arg: int = 0, target: object | None = None) -> None:
            self.assembler.emit(
                name,
                arg,
                target=target,
                position=position,
                handler=handler,
                origin=origin,
            )

        if name == "RETURN_VALUE":
            emit("LOAD_CONST", self._constant(None))
            emit("SWAP", 2)
            emit("BUILD_TUPLE", 2)
            emit("RETURN_VALUE")
        elif name == "RETURN_CONST":
            emit("LOAD_CONST", self._constant(None))
            emit("LOAD_CONST", arg)
            emit("BUILD_TUPLE", 2)
            emit("RETURN_VALUE")
        elif index in self.piece.methods:
            for what, of in own.bound_method(name, arg) or ((name, arg),):
                emit(what, of)
        elif name == "FOR_ITER" and own.LOOP_END:
            emit(name, 0, ("end of the loop", index))
            self.loop_ends.append(index)
        elif name in LOCAL_OPS:
            emit(name, self.place[arg])
        else:
            emit(name, arg, instruction.target)

    def _write_loop_end(self, index: int) -> None:
        """What a loop skips when it ends, apart from where it goes on."""
        self.assembler.label(("end of the loop", index))
        position = self.instructions[index].position
        for name in own.LOOP_END:
            self.assembler.emit(name, position=position)
        self.assembler.emit(
            "JUMP_BACKWARD_NO_INTERRUPT",
            target=self.instructions[index].target,
            position=position,
        )

    def _write_exit(self, index: int) -> None:
        """Tells the state before an instruction."""
        piece, function = self.piece, self.function
        rest, stack = piece.rests[index], function.stacks[index]
        assert stack is not None
        if function.is_in_handler(index):
            raise Unsplittable("its graph breaks where an exception is handled")
        way = _Exit(depth=len(rest))
        kinds = _kinds_told(stack)
        self._tell(
            self.instructions[index].at,
            way,
            rest,
            kinds,
            function.live[index],
            piece.sure[index],
            piece.maybe[index],
        )

    def _write_landing_pad(self, at: int) -> None:
        """Tells the state when an exception arrives at a handler."""
        piece, function = self.piece, self.function
        rest, sure, maybe = piece.handler_states[at]
        stack = function.stacks[at]
        assert stack is not None
        self.assembler.label(("landing pad", at))
        kinds = _kinds_told(stack)
        # What unwinding left of the stack begins at the piece's base.
        kept = rest[: max(len(rest), 0)]
        pushed = (-1,) * (len(stack) - len(kept))
        way = _Exit(depth=len(stack))
        self._tell(
            -1 - self.instructions[at].at,
            way,
            kept + pushed,
            kinds,
            function.live[at],
            sure,
            maybe,
        )

    def _tell(
        self,
        key: int,
        way: _Exit,
        rest: Rest,
        kinds: list[str],
        live: int,
        sure: int,
        maybe: int,
    ) -> None:
        piece, emit = self.piece, self.assembler.emit
        count = self.function.num_locals
        changed = [
            i
            for i in range(len(rest))
            if rest[i] != i and (i >= piece.base or rest[i] < 0)
        ]
        lowest = min(changed, default=len(rest))
        for i in range(len(rest) - 1, lowest - 1, -1):
            emit("STORE_FAST", self.temporaries[i - lowest])
        emit("LOAD_CONST", self._constant(key))
        told = self.piece.changed_variables()
        for slot in range(count if not piece.plain else 0):
            if not (told & ~live) >> slot & 1:
                continue
            if not (sure | maybe) >> slot & 1:
                way.nulls.append(slot)
                continue
            # What comes in unread isn't taken.
            self._load_maybe(self.place[slot], 1 + len(way.unread), lowest)
            way.unread.append(slot)
        emit("BUILD_TUPLE", len(way.unread))
        if not piece.plain:
            told &= live
        for slot in range(count):
            if not told >> slot & 1:
                continue
            if sure >> slot & 1:
                emit("LOAD_FAST", self.place[slot])
            elif maybe >> slot & 1:
                self._load_maybe(self.place[slot], 2 + len(way.values), lowest)
            else:
                emit("LOAD_CONST", self._constant(UNBOUND))
            way.values.append(slot)
        for i in changed:
            if kinds[i] == "n":
                way.nulls.append(count + i)
            elif kinds[i] == "s":
                variable = self.temporaries[i - lowest]
                self._load_maybe(variable, 2 + len(way.values), lowest)
                way.values.append(count + i)
            else:
                way.values.append(count + i)
                emit("LOAD_FAST", self.temporaries[i - lowest])
        emit("BUILD_TUPLE", len(way.values) + 2)
        emit("RETURN_VALUE")
        self.num_told = max(
            self.num_told, len(way.values) + 2, len(way.unread) + 1
        )
        self.exits[key] = way

    def _load_maybe(self, variable: int, above: int, lowest: int) -> None:
        missing, back = object(), object()
        depth = max(lowest - self.piece.base, 0) + above
        self.assembler.emit(
            own.CHECKED_LOAD, variable, handler=(missing, depth, False)
        )
        self.assembler.label(back)
        self.assembler.emit("NOP")
        self.maybes.append((missing, back))


def _kinds_told(stack: Stack) -> list[str]:
    """Of each slot: a null, one that may be null, or an object."""
    return [
        "n" if kind in "nm" else "s" if kind == "s" else "o"
        for kind, _ in stack
    ]
