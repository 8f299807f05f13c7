"""Random programs: places that hold values, queries of them, and uses of these.

Nothing here knows a defect. Every query may meet every place, every use every
query, and what a user's file or handler does is made of the same parts.
"""

from __future__ import annotations

import random
import re

from guard_fuzzing import statements as st
from guard_fuzzing.arrays import ARRAYS
from guard_fuzzing.case import FORMS, Case, Line
from guard_fuzzing.holders import (
    HOLDERS,
    VALUES,
    choose_holder,
    choose_kind,
)
from guard_fuzzing.queries import AMBIENT, QUERIES
from guard_fuzzing.tensors import TENSORS, TRAINING
from guard_fuzzing.texts import TEXTS
from guard_fuzzing.uses import BRANCHES, USES

_PART = re.compile(r"\{\{|\}\}|\{(\w+)\}")


def fill(template: str, **parts: str) -> str:
    """A template's text; what stands alone on a line is indented with it."""

    def one(line: str) -> str:
        alone = line.strip()
        if alone[:1] == "{" and alone[1:-1] in parts and alone[-1] == "}":
            margin = line[: len(line) - len(line.lstrip())]
            text = parts[alone[1:-1]]
            return "\n".join(margin + part for part in text.split("\n"))
        return _PART.sub(
            lambda m: parts[m[1]] if m[1] else m[0][0],
            line,
        )

    return "\n".join(map(one, template.split("\n")))


class Grammar:
    """Makes one case; see `make`."""

    def __init__(self, rng: random.Random, flags: list[str]) -> None:
        """Takes `flags`: expressions that read torch's flags."""
        self.rng = rng
        self.flags = flags
        self.reads: list[tuple[str, str, str]] = []
        self.writes: list[str] = []
        self.setup: list[Line] = []
        self.sinks: list[str] = []
        self.theirs: list[str] = []  # Tags of what the next line uses.
        self.arrays: list[str] = []  # Parameters that are numpy's arrays.

    def make(self, seed: int, number: int) -> Case:
        """Returns a program without steps."""
        rng = self.rng
        case = Case(seed, number, exact=rng.random() < 0.6)
        case.form = "function"
        if rng.random() < 0.35:
            case.form = rng.choice(list(FORMS))
        case.frozen = rng.random() < 0.04
        for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
            self._add_place()
        if rng.random() < 0.3:
            self._add_callee()
        case.params = self._parameters()
        lines = rng.choice((1, 1, 1, 1, 2, 2, 2, 3, 3, 5))
        case.body = [self._statement(2) for _ in range(lines)]
        if case.frozen:
            layer = rng.choice(["BIG", "STILL"])
            text = f"y = {layer}(y.detach().reshape(-1)[:1].expand(2, 16))"
            case.body.append(Line(text, text))
        case.results = [
            self._line("y" if rng.random() < 0.5 else rng.choice(st.RESULTS))
            for _ in range(rng.choice((1, 1, 1, 2, 3)))
        ]
        case.setup = self.setup
        return case

    def _add_place(self) -> None:
        kind, holder = choose_kind(self.rng), choose_holder(self.rng)
        name = f"V{len(self.reads)}"
        parts = {"n": name, "v": self.rng.choice(VALUES[kind])}
        found = HOLDERS[holder]
        self.setup.append(Line(fill(found.setup, **parts), f"at: {holder}"))
        self.reads.append((kind, fill(found.read, **parts), ""))
        if found.write:
            # What is written is put in later.
            text = fill(found.write, n=name, v="{v}")
            self.writes.append(text)

    def _add_callee(self) -> None:
        template = self.rng.choice([st.SINK, st.SINK, st.HANDLER, st.HOOK])
        name = f"SINK{len(self.sinks)}"
        parts = {}
        tags = []
        for part in "ab":
            action = self.rng.choice(st.ACTIONS)
            tags.append(action)
            parts[part] = self._expand(action)
        text = fill(template, n=name, **parts)
        self.setup.append(Line(text, "callee: " + " / ".join(sorted(tags))))
        self.reads.append(("int", f"{name}.n", "callee"))
        self.writes.append(f"{name}.n = {{v}}")
        self.sinks.append(name if template is st.SINK else "")
        if template is st.HOOK:
            self.sinks.append(f"told {name}")

    def _parameters(self) -> list[str]:
        names = ["x"]
        if self.rng.random() < 0.25:
            names.append("z=T0")
            self.reads.append(("tensor", "z", ""))
        if self.rng.random() < 0.3:
            names.append("c=SPECIAL")
            self.reads.append(("object", "c", ""))
        if self.rng.random() < 0.2:
            names.append("n=2")
            self.reads.append(("int", "n", ""))
        if self.rng.random() < 0.12:
            names.append("a=ARR")
            self.arrays.append("a")
        if self.rng.random() < 0.1:
            names.append("d=None")
        return names

    def _statement(self, depth: int) -> Line:
        rng, chance = self.rng, self.rng.random()
        if rng.random() < (0.5 if self.arrays else 0.03):
            return self._line(rng.choice(ARRAYS))
        if chance < 0.40:
            return self._line(rng.choice(rng.choice((USES, USES, TEXTS))))
        if chance < 0.64:
            return self._line(rng.choice(TENSORS))
        if chance < 0.80:
            return self._line(rng.choice(st.EFFECTS))
        if chance < 0.86:
            return self._line(rng.choice(TRAINING))
        if depth == 0:
            return self._line("y = y * {q}")
        inner = self._statement(depth - 1)
        if chance < 0.93:
            branch = rng.choice(BRANCHES)
            line = self._line(branch, e=inner.text)
        else:
            branch = rng.choice(st.WRAPPERS)
            if "class Inner" in branch and re.search(r"\bself\b", inner.text):
                return inner
            line = self._line(branch, b=inner.text, b2=inner.text)
        return Line(line.text, f"{line.tag} << {inner.tag}")

    def _line(self, template: str, **parts: str) -> Line:
        self.theirs = []
        if self.sinks and "{s}" not in template and self.rng.random() < 0.25:
            told = [s.split()[1] for s in self.sinks if s.startswith("told ")]
            template = f"{told[0]}({{q}})" if told else "print({q}, file={s})"
        text = self._expand(template, **parts)
        return Line(text, " ; ".join([template, *self.theirs]))

    def _expand(self, template: str, **parts: str) -> str:
        wanted = {m[1] for m in _PART.finditer(template) if m[1]}
        if "w" in wanted:
            return self._written(template, **parts)
        for name in sorted(wanted - set(parts)):
            parts[name] = getattr(self, f"_part_{name}")()
        return fill(template, **parts)

    def _written(self, template: str, **parts: str) -> str:
        """The text of a template that sets a place."""
        place = (
            self.rng.choice(self.writes) if self.writes else "SPECIAL.k = {v}"
        )
        head, _, value = template.partition("{w} = ")
        if place.endswith(" = {v}") or head or "{w}" in value:
            target = place.removesuffix(" = {v}")
            target = (
                "SPECIAL.k" if "{v}" in target or target[-1] == "(" else target
            )
            return self._expand(template.replace("{w}", target), **parts)
        return place.replace("{v}", self._expand(value, **parts))

    def _part_q(self) -> str:
        rng = self.rng
        chance = rng.random()
        if chance < 0.12:
            query = rng.choice(self.flags)
        elif chance < 0.32 or not self.reads:
            query = rng.choice(AMBIENT)
        else:
            return self._query()
        self.theirs.append(query)
        return query if query.isidentifier() else f"({query})"

    def _query(self) -> str:
        kind, read, _ = self.rng.choice(self.reads)
        alike = [r for k, r, _ in self.reads if k == kind]
        template = self.rng.choice(QUERIES[kind])
        self.theirs.append(f"{kind}: {template}")
        other = self.rng.choice([*alike, self.rng.choice(VALUES[kind])])
        return f"({fill(template, r=read, r2=other)})"

    def _of_kind(self, kinds: tuple[str, ...], default: str) -> str:
        found = [r for k, r, _ in self.reads if k in kinds]
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found)
        return default

    def _part_t(self) -> str:
        return self._of_kind(
            ("tensor", "leaf"), self.rng.choice(["T0", "T0", "x", "M[0]"])
        )

    _part_u = _part_t

    def _part_a(self) -> str:
        if self.arrays and self.rng.random() < 0.8:
            return self.rng.choice(self.arrays)
        own = ["ARR", "y.detach().numpy()", "{t}.detach().numpy()", "ARR[:]"]
        return self._expand(self.rng.choice(own))

    def _part_l(self) -> str:
        return self._of_kind(("list",), "LIST")

    def _part_d(self) -> str:
        return self._of_kind(("dict",), "CACHE")

    def _part_o(self) -> str:
        return self._of_kind(("object",), "SPECIAL")

    def _part_s(self) -> str:
        names = [s for s in self.sinks if s and not s.startswith("told ")]
        return self.rng.choice(names) if names else "sys.stdout"
