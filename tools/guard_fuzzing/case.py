"""One random program, and what is done to it: all of it text.

A Case is made of lines that may be dropped one by one, so that a difference
can be minimised, and printed, so that it can be repeated by hand.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable

from guard_fuzzing.blocks import BLOCKS

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class Line:
    """A text of the program's.

    Attributes:
      text: One or more lines of Python, or an expression.
      tag: The template that it comes from.
    """

    text: str
    tag: str


@dataclasses.dataclass(frozen=True)
class Step:
    """What happens next.

    Attributes:
      kind: "call", "world" for a change of both worlds, or "process" for a
        change of what they share.
      text: The call's arguments, or the change.
      tag: The template that it comes from.
      style: Of a call: a name in calls.py.
    """

    kind: str
    text: str
    tag: str
    style: str = "plain"

    def __str__(self) -> str:
        if self.kind != "call":
            return f"{self.kind}: {self.text}"
        how = "" if self.style == "plain" else f"  [{self.style}]"
        return f"call: program({self.text}){how}"


# How a program's body becomes something to call.
FORMS = {
    "function": "def program({params}):\n{body}\n",
    "closure": (
        "def make():\n    c = 2.0\n    def program({params}):\n{body2}\n"
        "    return program\nprogram = make()\n"
    ),
    "method": (
        "class Runner:\n    def __init__(self):\n        self.k = 2.0\n"
        "    def run(self, {params}):\n{body2}\nRUNNER = Runner()\n"
        "program = RUNNER.run\n"
    ),
    "callable": (
        "class Runner:\n    def __init__(self):\n        self.k = 2.0\n"
        "    def __call__(self, {params}):\n{body2}\nprogram = Runner()\n"
    ),
    "module": (
        "class Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.w = nn.Parameter(torch.full((3,), 1.5))\n"
        "        self.register_buffer('seen', torch.zeros(3))\n"
        "        self.k = 2.0\n"
        "    def forward(self, {params}):\n{body2}\nprogram = Net()\n"
    ),
    "partial": (
        "def inner(k, {params}):\n{body}\nprogram = "
        "functools.partial(inner, 2.0)\n"
    ),
}


@dataclasses.dataclass
class Case:
    """A program, and the steps that were taken with it.

    Attributes:
      seed: Of the whole run.
      number: Of the program in it.
      exact: Compiled with `exact=True`, and compared bit for bit.
      frozen: Compiled with `frozen=True`.
      form: A key of FORMS.
      params: Parameters, with their defaults.
      setup: Statements that make the world, in order.
      body: Statements of the program.
      results: Expressions that it returns.
      steps: Calls and changes, in order.
    """

    seed: int
    number: int
    exact: bool = True
    frozen: bool = False
    form: str = "function"
    params: list[str] = dataclasses.field(default_factory=lambda: ["x"])
    setup: list[Line] = dataclasses.field(default_factory=list)
    body: list[Line] = dataclasses.field(default_factory=list)
    results: list[Line] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)

    def source(self) -> str:
        """The text of a world: blocks that are needed, setup, program."""
        setup = "\n".join(line.text for line in self.setup)
        body = "\n".join(line.text for line in self.body)
        results = ", ".join(line.text for line in self.results) or "y"
        body = f"y, extra = x, []\n{body}\nreturn {results}"
        program = FORMS[self.form].format(
            params=", ".join(self.params),
            body=textwrap.indent(body, "    "),
            body2=textwrap.indent(body, "        "),
        )
        needed = blocks_of([setup, program])
        return "\n".join([*needed.values(), setup, program])

    def own_text(self) -> str:
        """What the program and its callees say, without the world's blocks."""
        callees = [line for line in self.setup if line.tag[:6] == "callee"]
        lines = [*callees, *self.body, *self.results]
        return "\n".join(line.text for line in lines)

    def draws(self) -> bool:
        """True if it may use a generator of random numbers."""
        text = self.source() + "".join(step.text for step in self.steps)
        return (
            re.search(
                r"(?i)rand|drop|choice|seed|rng|normal|bernoulli|shuffle", text
            )
            is not None
        )

    def tags(self) -> frozenset[str]:
        """The templates that it is made of."""
        lines = [*self.setup, *self.body, *self.results]
        found = {line.tag for line in lines if line.tag}
        for step in self.steps:
            found.add(step.tag)
            found.add("" if step.style == "plain" else f"call {step.style}")
        found.add("frozen" if self.frozen else "")
        found.add("" if self.form == "function" else f"form {self.form}")
        return frozenset(found - {""})

    def __str__(self) -> str:
        options = "".join(
            f", {name}=True"
            for name in ("exact", "frozen")
            if getattr(self, name)
        )
        steps = "\n".join(str(step) for step in self.steps)
        return f"{self.source().strip()}\n# compile(program{options})\n{steps}"


def blocks_of(texts: Iterable[str]) -> dict[str, str]:
    """The blocks that texts name, and those that they name, in order."""
    wanted: set[str] = set()
    waiting = list(texts)
    while waiting:
        for name in set(_NAME.findall(waiting.pop())):
            if name in BLOCKS and name not in wanted:
                wanted.add(name)
                waiting.append(BLOCKS[name])
    return {name: text for name, text in BLOCKS.items() if name in wanted}
