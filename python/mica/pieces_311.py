"""Cuts a function of CPython 3.11 at instructions that must leave its graph.

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
from dataclasses import dataclass, field
from types import CodeType, FunctionType

from mica.bytecode_311 import Assembler, Unsplittable
from mica.flow_311 import (
    ENDS,
    JUMPS,
    LOCAL_OPS,
    READS,
    VARARGS,
    VARKEYWORDS,
    FunctionFlow,
    Stack,
    follow,
    function_flow,
    touched,
)

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


# What a piece knows of a slot of its stack: the entry's slot of that number,
# still there; or -1 for another.
_Rest = tuple[int, ...]


class _Piece:
    def __init__(
        self,
        function: FunctionFlow,
        entry: int,
        steps: frozenset[int],
        bound: int,
        *,
        plain: bool,
        to_end: bool,
    ) -> None:
        self.function = function
        self.instructions = function.instructions
        self.entry = entry
        self.plain = plain
        self.bound = bound
        self.steps = steps
        self.landing_pads: set[int] = set()
        self.methods = self._rewritten_methods()
        if to_end:
            self.exits: frozenset[int] = frozenset()
        else:
            self.exits = self._exits_of_step() if plain else steps
        if plain or entry == 0:
            self._follow()
        else:
            self._follow_without_context()

    def _follow_without_context(self) -> None:
        """Leaves handlers out if the piece would take more of the stack.

        What a context put there is new at each call: a record that took it
        would serve none.
        """
        self.landing_pads = {
            i.handler.at for i in self.instructions if i.handler
        }
        self._follow()
        base, landing_pads = self.base, self.landing_pads
        self.landing_pads = set()
        try:
            self._follow()
            takes_more = self.base < base
        except _NeedsLandingPads:
            takes_more = True
        if takes_more:
            self.landing_pads = landing_pads
            self._follow()

    def _rewritten_methods(self) -> frozenset[int]:
        """Look-ups whose method is on the stack at a break.

        They leave a bound method above a null, so that what is null is known.
        """
        makers: set[int] = set()
        for step in self.steps:
            index = self.function.step_end(step) + 1
            for place in (step, index):
                if place >= len(self.instructions):
                    continue
                for kind, made in self.function.stacks[place] or ():
                    makers |= made if kind == "m" else set()
        return frozenset(makers)

    def _exits_of_step(self) -> frozenset[int]:
        """Where the steps that begin at the entry, one after another, end."""
        exits: set[int] = set()
        seen: set[int] = set()
        todo = [self.entry]
        while todo:
            index = todo.pop()
            if index in seen:
                continue
            seen.add(index)
            end = index
            if index == self.entry or index in self.steps:
                end = self.function.step_end(index)
            elif not self._only_stores(index):
                exits.add(index)
                continue
            stack = self.function.stacks[end]
            assert stack is not None
            after = [to for to, _ in follow(end, self.instructions[end], stack)]
            # What a graph break lets go of dies before what follows.
            is_let_go = index in self.steps and self.is_binding(end)
            if is_let_go and self.entry not in after:
                exits.update(after)
            else:
                todo += after
        return frozenset(exits)

    def is_binding(self, index: int) -> bool:
        """Whether an instruction gives a variable another value, or none."""
        instruction = self.instructions[index]
        return (
            instruction.name in ("STORE_FAST", "DELETE_FAST")
            and instruction.arg < self.function.num_locals
        )

    def _only_stores(self, index: int) -> bool:
        """Whether an instruction only puts away what a step left.

        What a step gave lives on as in the function itself: no piece that is
        served takes it over.
        """
        return self.instructions[index].name in (
            "STORE_FAST",
            "POP_TOP",
        ) and not self.function.is_in_handler(index)

    def _follow(self) -> None:
        """Finds what is reached, and what of the entry's stack is touched."""
        function = self.function
        entry_stack = function.stacks[self.entry]
        assert entry_stack is not None
        self.rests: dict[int, _Rest] = {}
        self.base = 0 if self.plain else len(entry_stack)
        # Definitely and possibly bound variables.
        self.sure: dict[int, int] = {}
        self.maybe: dict[int, int] = {}
        self.handler_states: dict[int, tuple[_Rest, int, int]] = {}
        start = tuple(range(len(entry_stack)))
        todo = [(self.entry, start, self.bound, self.bound)]
        while todo:
            index, rest, sure, maybe = todo.pop()
            if index in self.rests:
                rest = tuple(
                    a if a == b else -1
                    for a, b in zip(self.rests[index], rest, strict=True)
                )
                sure &= self.sure[index]
                maybe |= self.maybe[index]
                known = (self.rests[index], self.sure[index], self.maybe[index])
                if known == (rest, sure, maybe):
                    continue
            self.rests[index], self.sure[index] = rest, sure
            self.maybe[index] = maybe
            if index in self.exits:
                continue
            todo += self._go(index, rest, sure, maybe)
        for index in self.rests:
            handler = self.instructions[index].handler
            if handler is None or handler.at in self.landing_pads:
                continue
            if handler.depth < self.base:
                raise _NeedsLandingPads

    def _go(
        self, index: int, rest: _Rest, sure: int, maybe: int
    ) -> list[tuple[int, _Rest, int, int]]:
        instruction = self.instructions[index]
        name, depth = instruction.name, touched(instruction)
        self.base = min(self.base, len(rest) - depth)
        todo: list[tuple[int, _Rest, int, int]] = []
        handler = instruction.handler
        if handler is not None:
            state = (rest[: handler.depth], sure, maybe)
            known = self.handler_states.get(handler.at)
            if known is not None:
                state = (
                    tuple(
                        a if a == b else -1
                        for a, b in zip(known[0], state[0], strict=True)
                    ),
                    known[1] & sure,
                    known[2] | maybe,
                )
            self.handler_states[handler.at] = state
            if handler.at not in self.landing_pads:
                pushed = (-1,) * (1 + handler.lasti)
                todo.append((handler.at, state[0] + pushed, state[1], state[2]))
        if name in LOCAL_OPS and instruction.arg < self.function.num_locals:
            bit = 1 << instruction.arg
            if name in ("STORE_FAST", "MAKE_CELL"):
                sure, maybe = sure | bit, maybe | bit
            elif name == "DELETE_FAST":
                sure, maybe = sure & ~bit, maybe & ~bit
        made: Stack = tuple((str(i), frozenset()) for i in rest)
        for target, stack in follow(index, instruction, made):
            # Slots that the flow moved keep their numbers.
            moved = tuple(
                int(kind) if kind.lstrip("-").isdigit() else -1
                for kind, _ in stack
            )
            # An entry's slot counts where it was only.
            moved = tuple(n if n == i else -1 for i, n in enumerate(moved))
            todo.append((target, moved, sure, maybe))
        return todo

    def build(self, original: FunctionType) -> tuple[object, ...]:
        """The piece as a function, with what a caller has to know."""
        return _Writer(self).write(original)


class _NeedsLandingPads(Exception):
    """A handler needs slots that the piece doesn't have."""


class _Writer:
    """Writes a piece's code object."""

    def __init__(self, piece: _Piece) -> None:
        self.piece = piece
        self.function = piece.function
        self.instructions = piece.instructions
        self.assembler = Assembler()
        self.constants = list(self.function.code.co_consts)
        self.exits: dict[int, _Exit] = {}
        self.params = self._find_params()
        self.num_temporaries = 0
        self.num_told = 0
        self.maybes: list[tuple[object, object]] = []

    def _find_params(self) -> list[int]:
        """The slots that the piece takes."""
        piece, function = self.piece, self.function
        # What a way round an assignment leaves as it was is told all the same.
        live = function.live[piece.entry] | self._changed_variables()
        if not piece.plain and not function.sees_frame:
            live = self._read_in_piece()
        params = [
            i
            for i in range(function.num_locals)
            if (live & piece.bound) >> i & 1
        ]
        stack = function.stacks[piece.entry]
        assert stack is not None
        return params + [
            function.num_locals + i
            for i in range(piece.base, len(stack))
            if stack[i][0] not in "nm"
        ]

    def _read_in_piece(self) -> int:
        """Variables that the piece may read before it writes them."""
        piece, function = self.piece, self.function
        live: dict[int, int] = {}
        changed_here = self._changed_variables()
        order = sorted(piece.rests, reverse=True)
        needs_self = 1 if function.needs_self() else 0
        changed = True
        while changed:
            changed = False
            for index in order:
                instruction = self.instructions[index]
                if index in piece.exits:
                    live[index] = function.live[index] & changed_here
                    continue
                name, out = instruction.name, needs_self
                if name not in ENDS and name not in JUMPS:
                    out |= live.get(index + 1, 0)
                if instruction.target is not None:
                    out |= live.get(instruction.target, 0)
                if name in LOCAL_OPS and instruction.arg < function.num_locals:
                    bit = 1 << instruction.arg
                    out = out | bit if name in READS else out & ~bit
                handler = instruction.handler
                if handler is not None and handler.at in piece.landing_pads:
                    out |= function.live[handler.at] & changed_here
                elif handler is not None:
                    out |= live.get(handler.at, 0)
                if out != live.get(index, 0):
                    live[index] = out
                    changed = True
        return live.get(piece.entry, 0)

    def write(self, original: FunctionType) -> tuple[object, ...]:
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
        # A cell that comes in is the variable's value; super() wants to know.
        self.cells = [
            name
            for i, name in enumerate(names)
            if name in cells
            and (i not in place or piece.entry == 0 or (i == 0))
        ]
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
        stack = self.function.stacks[piece.entry]
        assert stack is not None
        count = self.function.num_locals
        for i in range(piece.base, len(stack)):
            if stack[i][0] in "nm":
                emit("PUSH_NULL")
                continue
            # No reference more than the frame had.
            parameter = self.params.index(count + i)
            emit("LOAD_FAST", parameter)
            emit("DELETE_FAST", parameter)
        if piece.entry != min(piece.rests):
            emit("JUMP_FORWARD", target=piece.entry)

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
        elif name == "LOAD_METHOD" and index in self.piece.methods:
            emit("PUSH_NULL")
            emit("SWAP", 2)
            emit("LOAD_ATTR", arg)
        elif name in LOCAL_OPS:
            emit(name, self.place[arg])
        else:
            emit(name, arg, instruction.target)

    def _write_exit(self, index: int) -> None:
        """Tells the state before an instruction."""
        piece, function = self.piece, self.function
        rest, stack = piece.rests[index], function.stacks[index]
        assert stack is not None
        if function.is_in_handler(index):
            raise Unsplittable("its graph breaks where an exception is handled")
        way = _Exit(depth=len(rest))
        kinds = ["n" if kind in "nm" else "o" for kind, _ in stack]
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
        kinds = ["n" if kind in "nm" else "o" for kind, _ in stack]
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
        rest: _Rest,
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
        told = self._changed_variables()
        for slot in range(count if not piece.plain else 0):
            if not (told & ~live) >> slot & 1:
                continue
            if not (sure | maybe) >> slot & 1:
                way.nulls.append(slot)
                continue
            # What comes in unread isn't taken.
            self._load_maybe(slot, 1 + len(way.unread), lowest)
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
                self._load_maybe(slot, 2 + len(way.values), lowest)
            else:
                emit("LOAD_CONST", self._constant(UNBOUND))
            way.values.append(slot)
        for i in changed:
            if kinds[i] == "n":
                way.nulls.append(count + i)
            else:
                way.values.append(count + i)
                emit("LOAD_FAST", self.temporaries[i - lowest])
        emit("BUILD_TUPLE", len(way.values) + 2)
        emit("RETURN_VALUE")
        self.num_told = max(
            self.num_told, len(way.values) + 2, len(way.unread) + 1
        )
        self.exits[key] = way

    def _load_maybe(self, slot: int, above: int, lowest: int) -> None:
        missing, back = object(), object()
        depth = max(lowest - self.piece.base, 0) + above
        self.assembler.emit(
            "LOAD_FAST", self.place[slot], handler=(missing, depth, False)
        )
        self.assembler.label(back)
        self.assembler.emit("NOP")
        self.maybes.append((missing, back))

    def _changed_variables(self) -> int:
        changed = 0
        for index in self.piece.rests:
            instruction = self.instructions[index]
            if (
                instruction.name in ("STORE_FAST", "DELETE_FAST", "MAKE_CELL")
                and instruction.arg < self.function.num_locals
            ):
                changed |= 1 << instruction.arg
        return changed


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
      bound: The variables that have a value at the entry.
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
    piece = _Piece(
        function,
        index,
        frozenset(function.unit.index_of(at) for at in places),
        sum(1 << slot for slot in bound),
        plain=plain or to_end,
        to_end=to_end,
    )
    return piece.build(original)
