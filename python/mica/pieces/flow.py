"""How control, stack and variables go through a function."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import CodeType

from mica.pieces.bytecode import (
    Handler,
    Instruction,
    Unit,
    Unsplittable,
    own,
)
from mica.pieces.opcodes import (
    ENDS,
    JUMPS,
    LOADS,
    LOCAL_OPS,
    READS,
    UNBINDS,
    effect,
    touched,
)

_OPTIMIZED, _NEWLOCALS, VARARGS, VARKEYWORDS = 1, 2, 4, 8
_GENERATORS = 0x20 | 0x80 | 0x200
# Names by which a function may look at its own frame.
_SEES_FRAME = frozenset(("vars", "eval", "dir", "_getframe", "currentframe"))
# Functions that keep a dict of variables with it, which a piece's doesn't have.
_KEEP_VARIABLES = frozenset(("locals", "exec"))

# What is known of a slot of the stack: "o" an object, "n" a null, "m" either,
# of a method, "s" either, of a variable that a comprehension saved, "x" what a
# handler restores, "?" differs; and the instructions that made it.
Slot = tuple[str, frozenset[int]]
Stack = tuple[Slot, ...]


def _join(a: Stack, b: Stack) -> Stack:
    if len(a) != len(b):
        raise Unsplittable("its stack can't be followed")
    return tuple(
        (x[0] if x[0] == y[0] else "?", x[1] | y[1])
        for x, y in zip(a, b, strict=True)
    )


def follow(
    index: int, instruction: Instruction, stack: Stack
) -> list[tuple[int, Stack]]:
    """Where control goes from an instruction, and with which stack."""
    name, arg = instruction.name, instruction.arg
    following = index + 1
    target = instruction.target
    if name == "COPY":
        return [(following, (*stack, stack[-arg]))]
    if name == "SWAP":
        items = list(stack)
        items[-1], items[-arg] = items[-arg], items[-1]
        return [(following, tuple(items))]
    if name == "FOR_ITER":
        assert target is not None
        value: Slot = ("o", frozenset())
        return [(following, (*stack, value)), (target, stack[:-1])]
    if name in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
        assert target is not None
        return [(following, stack[:-1]), (target, stack)]
    pops, pushes = effect(instruction)
    if pops > len(stack):
        raise Unsplittable("its stack can't be followed")
    made = frozenset((index,))
    after = stack[: len(stack) - pops] + tuple(
        # Of a with's two, the exit is what stays.
        (kind, frozenset() if name == "BEFORE_WITH" and i == 1 else made)
        for i, kind in enumerate(pushes)
    )
    if name in ENDS:
        return []
    if name in JUMPS:
        assert target is not None
        return [(target, after)]
    result = [(following, after)]
    if target is not None:
        result.append((target, after))
    return result


def _at_handler(stack: Stack, handler: Handler) -> Stack:
    pushed: tuple[Slot, ...] = (("x", frozenset()),) * (1 + handler.lasti)
    return stack[: handler.depth] + pushed


class FunctionFlow:
    """What is known of a code object, whoever runs it."""

    def __init__(self, code: CodeType) -> None:
        if code.co_flags & _GENERATORS:
            raise Unsplittable("it is a generator or a coroutine")
        if not code.co_flags & _NEWLOCALS or not code.co_flags & _OPTIMIZED:
            raise Unsplittable("it is no function's code")
        self.code = code
        self.unit = Unit(code)
        self.instructions = self.unit.instructions
        names = list(code.co_varnames)
        names += [n for n in code.co_cellvars if n not in code.co_varnames]
        self.names = names  # Of the variables that a frame owns.
        self.sees_frame = not _SEES_FRAME.isdisjoint(code.co_names)
        if self._keeps_variables():
            raise Unsplittable("it asks for a dict of its variables")
        self.stacks = self._find_stacks()
        self._settle_saved()
        self.targets = {
            i.target for i in self.instructions if i.target is not None
        } | {i.handler.at for i in self.instructions if i.handler is not None}
        self.live = self._find_live()
        self.consumers = self._find_consumers()

    @property
    def num_locals(self) -> int:
        """The number of variables that a frame owns."""
        return len(self.names)

    def _find_stacks(self) -> list[Stack | None]:
        stacks: list[Stack | None] = [None] * len(self.instructions)
        todo: list[tuple[int, Stack]] = [(0, ())]
        while todo:
            index, stack = todo.pop()
            known = stacks[index]
            joined = stack if known is None else _join(known, stack)
            if joined == known:
                continue
            stacks[index] = joined
            instruction = self.instructions[index]
            todo += follow(index, instruction, joined)
            if instruction.handler is not None:
                handler = instruction.handler
                todo.append((handler.at, _at_handler(joined, handler)))
        return stacks

    def _settle_saved(self) -> None:
        """Finds which of the values that comprehensions save are there.

        Mostly none is: the variable has no value outside.
        """
        instructions = self.instructions
        savers = {
            index: 1 << instruction.arg
            for index, instruction in enumerate(instructions)
            if instruction.name == "LOAD_FAST_AND_CLEAR"
        }
        if not savers:
            return
        # Of each instruction: the variables that may have a value.
        maybe = [0] * len(instructions)
        changed = True

        def reach(index: int, bound: int) -> None:
            nonlocal changed
            changed |= bound & ~maybe[index] != 0
            maybe[index] |= bound

        reach(0, (1 << self._num_arguments()) - 1)
        while changed:
            changed = False
            for index, stack in enumerate(self.stacks):
                if stack is None:
                    continue
                instruction, bound = instructions[index], maybe[index]
                if instruction.handler is not None:
                    reach(instruction.handler.at, bound)
                if instruction.name in LOCAL_OPS:
                    bit = 1 << instruction.arg
                    is_bound = instruction.name in ("STORE_FAST", "MAKE_CELL")
                    if instruction.name == "STORE_FAST" and stack[-1][0] == "s":
                        is_bound = any(
                            maybe[i] & savers[i] for i in stack[-1][1]
                        )
                    if is_bound:
                        bound |= bit
                    elif instruction.name in UNBINDS:
                        bound &= ~bit
                for target, _ in follow(index, instruction, stack):
                    reach(target, bound)
        for index, stack in enumerate(self.stacks):
            if stack is not None:
                self.stacks[index] = tuple(
                    ("n", makers)
                    if kind == "s"
                    and not any(maybe[i] & savers[i] for i in makers)
                    else (kind, makers)
                    for kind, makers in stack
                )

    def _num_arguments(self) -> int:
        code = self.code
        count = code.co_argcount + code.co_kwonlyargcount
        flags = code.co_flags
        return count + bool(flags & VARARGS) + bool(flags & VARKEYWORDS)

    def _keeps_variables(self) -> bool:
        """Whether it calls locals(), exec(…) or vars()."""
        for index, instruction in enumerate(self.instructions):
            if instruction.name != "LOAD_GLOBAL":
                continue
            called = self.code.co_names[instruction.arg >> 1]
            if called in _KEEP_VARIABLES:
                return True
            if called == "vars" and self._call_arguments(index + 1) == 0:
                return True
        return False

    def _call_arguments(self, index: int) -> int:
        """The number of arguments of a call that is next, else -1."""
        for instruction in self.instructions[index : index + 3]:
            if instruction.name == "CALL":
                return instruction.arg
            if instruction.name not in ("PRECALL", "PUSH_NULL"):
                break
        return -1

    def _find_live(self) -> list[int]:
        """Of each instruction: the variables that may be read from there on."""
        count = len(self.instructions)
        everything = (1 << self.num_locals) - 1
        if self.sees_frame:
            return [everything] * count
        live = [0] * count
        changed = True
        while changed:
            changed = False
            for index in range(count - 1, -1, -1):
                instruction = self.instructions[index]
                name, out = instruction.name, 0
                if name not in ENDS and name not in JUMPS:
                    out |= live[index + 1] if index + 1 < count else 0
                if instruction.target is not None:
                    out |= live[instruction.target]
                if name in LOCAL_OPS and instruction.arg < self.num_locals:
                    bit = 1 << instruction.arg
                    out = out | bit if name in READS else out & ~bit
                if instruction.handler is not None:
                    out |= live[instruction.handler.at]
                if out != live[index]:
                    live[index] = out
                    changed = True
        if self.needs_self():
            live = [bits | 1 for bits in live]
        return live

    def needs_self(self) -> bool:
        """Whether super() looks for the first argument by itself."""
        code = self.code
        return "__class__" in code.co_freevars and code.co_argcount > 0

    def _find_consumers(self) -> dict[int, set[int]]:
        """Of iterators and contexts: the instructions that look at them."""
        consumers: dict[int, set[int]] = {}
        for index, instruction in enumerate(self.instructions):
            stack = self.stacks[index]
            if stack is None:
                continue
            depth = touched(instruction)
            for _, makers in stack[len(stack) - depth :] if depth else ():
                for maker in makers:
                    if self.instructions[maker].name in (
                        "GET_ITER",
                        "BEFORE_WITH",
                    ):
                        consumers.setdefault(maker, set()).add(index)
        return consumers

    def step_at(self, index: int) -> int:
        """The first instruction of the step that an instruction is part of."""
        instructions = self.instructions
        for name in ("PRECALL", "KW_NAMES"):
            if index > 0 and instructions[index - 1].name == name:
                index -= 1
        while index > 0 and self._is_load_before(index):
            index -= 1
        return index

    def _is_load_before(self, index: int) -> bool:
        """Whether what comes before always leads on to `index`, and loads."""
        before = self.instructions[index - 1]
        return (
            before.name in LOADS
            and index not in self.targets
            and before.handler == self.instructions[index].handler
        )

    def step_end(self, index: int) -> int:
        """The last instruction of the step that begins at `index`."""
        while (
            self.instructions[index].name in LOADS
            and index + 1 < len(self.instructions)
            and self._is_load_before(index + 1)
        ):
            index += 1
        if self.instructions[index].name == "KW_NAMES":
            index += 1
        if self.instructions[index].name == "PRECALL":
            index += 1
        instruction = self.instructions[index]
        if own.gives_truth(instruction.name, instruction.arg) and (
            self.instructions[index + 1].name.startswith("POP_JUMP_IF_")
            and index + 1 not in self.targets
            and self.instructions[index + 1].handler == instruction.handler
        ):
            index += 1
        return index

    def is_in_handler(self, index: int) -> bool:
        """Whether an exception may be under way there."""
        stack = self.stacks[index]
        return stack is None or any(kind in "x?" for kind, _ in stack)

    def _makers_of_iterable(self, index: int) -> list[int]:
        """The steps that make what an iterator is got of, by a call."""
        stack = self.stacks[index]
        if self.instructions[index].name != "GET_ITER" or not stack:
            return []
        return [
            self.step_at(maker)
            for maker in stack[-1][1]
            if self.instructions[maker].name in ("CALL", "CALL_KW")
        ]

    def steps(self, places: Iterable[int]) -> frozenset[int]:
        """All steps that follow from graph breaks at some instructions.

        A step begins where its operands are loaded. What holds the place in a
        loop or a context can't be in a record: the steps that make and use it
        are graph breaks too.
        """
        steps: set[int] = set()
        todo = [self.step_at(self.unit.index_of(at)) for at in places]
        for index in todo:
            if self.is_in_handler(index):
                raise Unsplittable(
                    "its graph breaks where an exception is handled"
                )
        while todo:
            index = todo.pop()
            if index in steps:
                continue
            steps.add(index)
            todo += self._makers_of_iterable(self.step_end(index))
            for _, makers in self.stacks[index] or ():
                for maker in makers & self.consumers.keys():
                    todo.append(self.step_at(maker))
                    todo += [
                        self.step_at(consumer)
                        for consumer in self.consumers[maker]
                        if not self.is_in_handler(self.step_at(consumer))
                    ]
        return frozenset(steps)


@lru_cache(maxsize=256)
def function_flow(code: CodeType) -> FunctionFlow:
    """What is known of a code object; raises Unsplittable."""
    return FunctionFlow(code)
