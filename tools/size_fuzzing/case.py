"""One random program and the calls of it: all of it text.

So that a difference can be minimised line by line, and printed.
"""

from __future__ import annotations

import dataclasses
import textwrap

from size_fuzzing.blocks import blocks_of

FORMS = {
    "function": "def program({params}):\n{body}\n",
    "closure": (
        "def make(c):\n    def program({params}):\n{body2}\n"
        "    return program\nprogram = make(2)\n"
    ),
    "module": (
        "class Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.c = 2\n"
        "        self.seen = 0\n"
        "    def forward(self, {params}):\n{body2}\nprogram = Net()\n"
    ),
}


@dataclasses.dataclass
class Call:
    """One call.

    Attributes:
      sizes: The dims by name, and other numbers that arguments are made of.
      args: Texts of arguments that aren't as usual, by parameter.
    """

    sizes: dict[str, int]
    args: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    """A program, and how it is called.

    Attributes:
      seed: Of the whole run.
      number: Of the program in it.
      exact: Compiled with `exact=True`, and compared bit for bit.
      train: "" for none, "outside" if backward() is called on the results,
        "inside" if the program takes a training step.
      dtype: Of floats.
      hidden: HID, a size that never changes.
      form: A key of FORMS.
      params: Texts of the arguments, by parameter, in order.
      setup: Statements that make the world.
      before: Statements that come before each call.
      body: Statements of the program.
      results: Expressions that it returns.
      calls: In order.
    """

    seed: int
    number: int
    exact: bool = False
    train: str = ""
    dtype: str = "float32"
    hidden: int = 8
    form: str = "function"
    params: dict[str, str] = dataclasses.field(default_factory=dict)
    setup: list[str] = dataclasses.field(default_factory=list)
    before: list[str] = dataclasses.field(default_factory=list)
    body: list[str] = dataclasses.field(default_factory=list)
    results: list[str] = dataclasses.field(default_factory=list)
    calls: list[Call] = dataclasses.field(default_factory=list)

    def world(self) -> str:
        """The text of all but the program."""
        texts = [*self.setup, *self.before, *self.body, *self.results]
        return (
            f"DT = torch.{self.dtype}\nHID = {self.hidden}\n"
            + "".join(blocks_of(texts).values())
            + "".join(text + "\n" for text in self.setup)
        )

    def program(self) -> str:
        """The text of the program."""
        lines = list(self.body)
        results = ", ".join(self.results)
        if len(self.results) == 1:
            results += "," if self.number % 2 else ""
        lines.append(f"return {results or 'None'}")
        body = "\n".join(lines)
        return FORMS[self.form].format(
            params=", ".join(self.params),
            body=textwrap.indent(body, "    "),
            body2=textwrap.indent(body, "        "),
        )

    def source(self) -> str:
        """The text of a world."""
        return self.world() + self.program()

    def __str__(self) -> str:
        lines = [self.source().strip()]
        lines += [f"# before each call: {text}" for text in self.before]
        lines += [f"# {name} = {text}" for name, text in self.params.items()]
        lines.append(
            f"# exact={self.exact} train={self.train!r} dtype={self.dtype}"
        )
        for index, call in enumerate(self.calls):
            lines.append(f"# call {index}: {call.sizes} {call.args or ''}")
        return "\n".join(lines)
