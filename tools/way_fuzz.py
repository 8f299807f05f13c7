#!/usr/bin/env python3
"""Do random programs whose way data decide give eager's results?

Draws functions of a few tensors with branches, loops that end early and helpers
that return early, all by values read from tensors, and state that goes with
them: aliases, numbers, lists, flags. Each is called with many inputs by a twin
compiled with `exact` and an eager one. Results are compared by value, and by
which of them are the same object, or an argument, or share memory. The last
line with `--json` has the counts: programs, calls, hits, ways that were
joined, differences.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import mica

SIZE = 3
UNARY = (
    "torch.relu({})",
    "torch.tanh({})",
    "-{}",
    "{} * 0.5",
    "{} + 0.25",
    "{}.t()",
    "{}.flip(0)",
    "self_w @ {}",
    "{}.clone()",
)
BINARY = ("{} + {}", "{} * {}", "{} @ {}", "torch.maximum({}, {})", "{} - {}")
QUESTIONS = (
    "{x}.sum() > 0",
    "{x}[0, 0] > {y}[1, 1]",
    "bool(({x} > 0.5).any())",
    "{x}.max().item() > {c}",
    "{x}.mean().item() > {y}.mean().item()",
    "torch.equal({x}.sign(), {y}.sign())",
    "flags[{n}]",
    "helper_asks({x})",
    "not ({x}.min() < -1)",
    "{x}.sum() > 0 and {y}.sum() > 0",
    "{x}.sum() > 0.5 or {y}.sum() < 0",
    "int({x}.argmax()) % 2 == 0",
)
STATIC = ("count > 2", "len(items) > 1", "flag", "{x} is {y}", "mode == 'b'")
NAMES = ("x", "y", "z")


class Source:
    """A function's text, drawn."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.budget = draw.randint(6, 16)

    def name(self) -> str:
        """A variable that holds a tensor."""
        return self.draw.choice(NAMES)

    def value(self) -> str:
        """An expression of a tensor."""
        kind = self.draw.random()
        if kind < 0.45:
            return self.draw.choice(UNARY).format(self.name())
        if kind < 0.75:
            return self.draw.choice(BINARY).format(self.name(), self.name())
        if kind < 0.85:
            return self.name()
        if kind < 0.9:
            return f"box['t'] * 0.5 + {self.name()}"
        if kind < 0.95:
            return f"helper_gives({self.name()}, {self.name()})"
        return f"(items[-1] if items else {self.name()})"

    def question(self) -> str:
        """An expression of a truth."""
        text = self.draw.choice(
            QUESTIONS if self.draw.random() < 0.8 else STATIC
        )
        return text.format(
            x=self.name(),
            y=self.name(),
            c=round(self.draw.uniform(-1, 1), 2),
            n=self.draw.randint(0, 2),
        )

    def put(self, depth: int, line: str) -> None:
        """Adds a line."""
        self.lines.append("    " * depth + line)

    def simple(self, depth: int) -> None:
        """A statement without branches."""
        name = self.name()
        line = self.draw.choices(
            (
                f"{name} = {self.value()}",
                f"x, y = {self.name()}, {self.name()}",
                "count += 1",
                "flag = not flag",
                f"items.append({self.name()})",
                f"box['t'] = {self.name()}",
                f"{name} = {name}.clone().mul_(0.5)",
                "mode = 'b' if mode == 'a' else 'a'",
                f"{name} = {name} * count",
                "x, y, z = y, z, x",
                f"flags = ({self.name()} > 0).any(1)",
                "items.pop() if items else None",
                f"{name} = torch.stack([x, y, z]).mean(0)",
            ),
            (12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5, 1),
        )[0]
        self.put(depth, line)

    def read_and_written(self, depth: int) -> str:
        """A question about a number whose tensor is written meanwhile."""
        name = self.name()
        self.put(depth, f"held = {name}.mean()")
        self.put(depth, "number = held.item()")
        write = self.draw.choice(("add_(3)", "neg_()", "zero_()"))
        self.put(depth, f"held.{write}")
        if self.draw.random() < 0.5:
            self.put(depth, f"{name} = {name} + held")
        return f"number > {round(self.draw.uniform(-0.5, 0.5), 2)}"

    def block(self, depth: int, in_loop: bool) -> None:
        """A few statements."""
        for _ in range(self.draw.randint(1, 3)):
            self.statement(depth, in_loop)

    def statement(self, depth: int, in_loop: bool) -> None:
        """One, which may have others in it."""
        self.budget -= 1
        kind = self.draw.random()
        if self.budget < 0 or depth > 4 or kind < 0.45:
            return self.simple(depth)
        if kind < 0.75:
            if self.draw.random() < 0.15:
                question = self.read_and_written(depth)
            else:
                question = self.question()
            self.put(depth, f"if {question}:")
            self.block(depth + 1, in_loop)
            if self.draw.random() < 0.5:
                self.put(depth, "else:")
                self.block(depth + 1, in_loop)
        elif kind < 0.85:
            self.put(depth, f"for i in range({self.draw.randint(2, 4)}):")
            self.block(depth + 1, True)
        elif kind < 0.9:
            self.put(depth, "for w in weights:")
            self.put(depth + 1, f"{self.name()} = w @ {self.name()}")
            self.block(depth + 1, True)
        elif kind < 0.94 and in_loop:
            self.put(depth, f"if {self.question()}:")
            self.put(depth + 1, self.draw.choice(("break", "continue")))
        elif kind < 0.97:
            turns = f"turns{depth}"
            self.put(depth, f"{turns} = 0")
            self.put(depth, f"while ({self.question()}) and {turns} < 3:")
            self.put(depth + 1, f"{turns} += 1")
            self.block(depth + 1, True)
        else:
            self.put(depth, f"if {self.question()}:")
            self.put(depth + 1, f"return {self.result()}")
        return None

    def result(self) -> str:
        """What is returned."""
        return self.draw.choice(
            (
                "x",
                "x + y",
                "(x, y)",
                "(x, y, z)",
                "[x, items]",
                "{'x': x, 'box': box}",
                "(x, count, flag, mode)",
                "(x, x)",
                "(z, self_w @ x)",
                "torch.stack([x, y, z])",
            )
        )

    def text(self) -> str:
        """The whole module's."""
        self.put(0, "def program(x, y, z):")
        self.put(1, "count, flag, mode, items = 0, False, 'a', []")
        self.put(1, "box, flags = {'t': z}, (x > 0).any(1)")
        for _ in range(self.draw.randint(2, 5)):
            self.statement(1, False)
        self.put(1, f"return {self.result()}")
        return HELPERS + "\n".join(self.lines) + "\n"


HELPERS = """
import torch

def helper_asks(t):
    return bool(t.sum() > 0.3)

def helper_gives(a, b):
    if (a - b).sum() > 0:
        return a * 0.5
    if a.max() > 1:
        return b
    return a - b

"""


def leaves(value: Any) -> Iterator[Any]:
    """The parts of a result in order, with the kinds of their containers."""
    if isinstance(value, dict):
        yield list(value)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        yield type(value).__name__
        for one in value:
            yield from leaves(one)
    else:
        yield value


def form(result: Any, arguments: list[torch.Tensor]) -> list[Any]:
    """Which parts are which objects, arguments, or share memory."""
    tensors = [t for t in leaves(result) if isinstance(t, torch.Tensor)]
    known = arguments + tensors
    return [
        (
            [i for i, k in enumerate(known) if k is t],
            [
                i
                for i, k in enumerate(known)
                if k.untyped_storage().data_ptr()
                == t.untyped_storage().data_ptr()
            ],
            t.dtype,
            t.stride(),
            t._version,
            t.is_contiguous(),
        )
        for t in tensors
    ]


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit for bit."""
    parts_a, parts_b = list(leaves(a)), list(leaves(b))
    if len(parts_a) != len(parts_b):
        return False
    for one, other in zip(parts_a, parts_b, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if one.shape != other.shape or not torch.allclose(
                one, other, rtol=0, atol=0, equal_nan=True
            ):
                return False
        elif type(one) is not type(other) or one != other:
            return False
    return True


def outcome(function: Any, arguments: list[torch.Tensor]) -> Any:
    """What a call gives, or the type of what it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def make(seed: int, number: int) -> tuple[str, list[torch.Tensor]]:
    """The text of a program, and what it reads."""
    draw = random.Random(seed * 1_000_003 + number)
    generator = torch.Generator().manual_seed(draw.randrange(1 << 30))
    weights = [
        torch.randn(SIZE, SIZE, generator=generator) * 0.7 for _ in range(3)
    ]
    return Source(draw).text(), weights


def trial(seed: int, number: int, calls: int) -> dict[str, Any]:
    """Runs one program."""
    text, weights = make(seed, number)
    twins = []
    for _ in range(2):
        world: dict[str, Any] = {"self_w": weights[0], "weights": weights}
        exec(compile(text, f"<program {number}>", "exec"), world)
        twins.append(world["program"])
    # What is nearly a tie is to come out alike.
    compiled: Any = mica.compile(twins[0], exact=True)
    generator = torch.Generator().manual_seed(number)
    found: dict[str, Any] = {"calls": 0, "hits": 0, "joined": 0, "differs": ""}
    for call in range(calls):
        arguments = [
            torch.randn(SIZE, SIZE, generator=generator) for _ in range(3)
        ]
        if call % 7 == 3:
            arguments[1] = arguments[0]
        copies = [t.clone() for t in arguments]
        if call % 7 == 3:
            copies[1] = copies[0]
        want, got = outcome(twins[1], copies), outcome(compiled, arguments)
        found["calls"] += 1
        if not same(want, got) or (
            not isinstance(want, type)
            and form(want, copies) != form(got, arguments)
        ):
            found["differs"] = f"call {call}"
            break
    report = mica.explain(compiled)
    found["hits"] = report.hits
    found["joined"] = sum(graph.num_ways > 1 for graph in report.graphs)
    return found


def main() -> int:
    """Runs the programs; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this program, printed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    mica.options.set(capture_budget=1e6)
    numbers = range(arguments.programs)
    if arguments.only is not None:
        numbers = range(arguments.only, arguments.only + 1)
        print(make(arguments.seed, arguments.only)[0], flush=True)
    total = {"programs": 0, "calls": 0, "hits": 0, "joined": 0}
    differences = []
    start = time.monotonic()
    with torch.no_grad():
        for number in numbers:
            found = trial(arguments.seed, number, arguments.calls)
            total["programs"] += 1
            for name in ("calls", "hits", "joined"):
                total[name] += found[name]
            if found["differs"]:
                differences.append(number)
                print(f"program {number} differs at {found['differs']}")
    total["differences"] = len(differences)
    if arguments.json:
        print(json.dumps(total | {"seed": arguments.seed}))
    else:
        seconds = time.monotonic() - start
        print(f"{total} in {seconds:.0f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
