"""What a piece of a function is: where it begins, goes and ends."""

from __future__ import annotations

from mica.pieces.flow import FunctionFlow, Stack, follow
from mica.pieces.opcodes import (
    BINDS,
    ENDS,
    JUMPS,
    LOCAL_OPS,
    READS,
    UNBINDS,
    touched,
)

# What a piece knows of a slot of its stack: the entry's slot of that number,
# still there; or -1 for another.
Rest = tuple[int, ...]


class Piece:
    """What a piece reaches, and what it takes of the state where it begins."""

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

    def _bound_by(self, index: int) -> str:
        """What an instruction binds its variable to, as a kind of slot."""
        name = self.instructions[index].name
        if name in UNBINDS:
            return "n"
        if name == "MAKE_CELL":
            return "o"
        if name != "STORE_FAST":
            return ""
        stack = self.function.stacks[index]
        assert stack
        return stack[-1][0] if stack[-1][0] in "ns" else "o"

    def has_operand(self, slot: int) -> bool:
        """Whether a slot of the entry's stack holds an object, not a null."""
        stack = self.function.stacks[self.entry]
        assert stack is not None
        kind = stack[slot][0]
        if kind == "s":
            return bool(self.bound >> self.function.num_locals + slot & 1)
        return kind not in "nm"

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
        self.rests: dict[int, Rest] = {}
        self.base = 0 if self.plain else len(entry_stack)
        # Definitely and possibly bound variables.
        self.sure: dict[int, int] = {}
        self.maybe: dict[int, int] = {}
        self.handler_states: dict[int, tuple[Rest, int, int]] = {}
        start = tuple(range(len(entry_stack)))
        variables = self.bound & (1 << function.num_locals) - 1
        todo = [(self.entry, start, variables, variables)]
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
        self, index: int, rest: Rest, sure: int, maybe: int
    ) -> list[tuple[int, Rest, int, int]]:
        instruction = self.instructions[index]
        name, depth = instruction.name, touched(instruction)
        self.base = min(self.base, len(rest) - depth)
        todo: list[tuple[int, Rest, int, int]] = []
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
            kind = self._bound_by(index)
            if kind in ("o", "s"):
                maybe |= bit
                sure = sure | bit if kind == "o" else sure & ~bit
            elif kind == "n":
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

    def find_params(self) -> list[int]:
        """The slots that the piece takes."""
        function = self.function
        # What a way round an assignment leaves as it was is told all the same.
        live = function.live[self.entry] | self.changed_variables()
        if not self.plain and not function.sees_frame:
            live = self._read_in_piece()
        params = [
            i
            for i in range(function.num_locals)
            if (live & self.bound) >> i & 1
        ]
        stack = function.stacks[self.entry]
        assert stack is not None
        return params + [
            function.num_locals + i
            for i in range(self.base, len(stack))
            if self.has_operand(i)
        ]

    def _read_in_piece(self) -> int:
        """Variables that the piece may read before it writes them."""
        function = self.function
        live: dict[int, int] = {}
        changed_here = self.changed_variables()
        order = sorted(self.rests, reverse=True)
        needs_self = 1 if function.needs_self() else 0
        changed = True
        while changed:
            changed = False
            for index in order:
                instruction = self.instructions[index]
                if index in self.exits:
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
                if handler is not None and handler.at in self.landing_pads:
                    out |= function.live[handler.at] & changed_here
                elif handler is not None:
                    out |= live.get(handler.at, 0)
                if out != live.get(index, 0):
                    live[index] = out
                    changed = True
        return live.get(self.entry, 0)

    def changed_variables(self) -> int:
        """The variables that it may give another value, or none."""
        changed = 0
        for index in self.rests:
            instruction = self.instructions[index]
            if (
                instruction.name in BINDS
                and instruction.arg < self.function.num_locals
            ):
                changed |= 1 << instruction.arg
        return changed


class _NeedsLandingPads(Exception):
    """A handler needs slots that the piece doesn't have."""
