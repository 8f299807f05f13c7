"""Fills templates in, and keeps what runs at several sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import torch

from size_fuzzing import control, templates
from size_fuzzing.blocks import BLOCKS

_HOLE = re.compile(r"\{\{|\{(\w+)\}|\}\}")
_ATOM = re.compile(r"^[\w.]+(\[[^\[\]]*\]|\([^()]*\))*$")
_MOST_ELEMENTS = 20000
_MOST = 1000.0
_OPERATORS = """\
{a} + {b}
{a} - {b}
{a} * {b}
{a} // {c}
{a} // 2
{a} // {b}
{a} % {c}
{a} % {b}
{a} - {c}
{a} + {c}
{a} * {c}
{a} - 1
{a} + 1
2 * {a}
-{a}
-(-{a} // {c})
({a} + {c} - 1) // {c}
({a} + 3) & ~3
{a} >> 1
{a} << 1
{a} ^ 1
{a} ** 2
abs({a} - {b})
max({a}, {b})
max({a} - {c}, 1)
min({a}, {b})
min({a}, {c})
max({a}, {c}, {b})
math.ceil({a} / {c})
math.floor({a} / {c})
math.ceil({a} / 4) * 4
math.trunc({a} / {c})
int({a} / {c})
int({a} * 0.5)
int({a} * 0.75)
int({a} ** 0.5)
int(math.sqrt({a}))
round({a} / {c})
round({a} * 0.6)
int({a} / {b} * {c})
divmod({a}, {c})[0]
divmod({a}, {c})[1]
divmod({a}, {b})[1]
({a} if {a} > {c} else {b})
({a} or {c})
sum(({a}, {b}))
int({a} > {c})
({a}).bit_length()
math.gcd({a}, {b})
int(math.log2({a}))
{a} - {a} % {c}
int(round({a} / {c}, 0))
int(float({a}))
int(str({a}))
[{a}, {b}][{a} % 2]""".splitlines()
_FLOATS = """\
1 / {a}
1 / {a}
1 / math.sqrt({a})
{a} ** -0.5
1.0 / {a} ** 2
{a} / {b}
{a} / {c}
{a} * 0.25
float({a}) / 8
math.sqrt({a})
math.log({a})
math.log({a}) / math.log(2)
math.exp(-{a})
math.sin({a})
math.cos({a} / {b})
math.pow({a}, 0.25)
2.0 ** -{a}
({a} - 1) / max({b}, 1)
round({a} / 3, 1)
round(1 / {a}, 2)
0.1 * {a}
{a} * 1e-2
abs({a} / 7 - 1)
min({a} / 8, 1.0)
max(1 / {a}, 0.2)
{a} % 3 / 2
{a} // 3 * 0.5
{a} / 2 // 1
{a} * 0.3 % 1
float(f"{a}") / 4
math.tanh({a} / 10)
math.hypot({a}, {b}) / 8
(1 + {a}) / (2 + {b})
math.ceil({a} / 3) / 4
math.fmod({a}, 3) / 2
(0.5 if {a} > {c} else 0.25)
{a}.__truediv__(4)
{a} / 8 + 1 / {b}
-{a} / 9""".splitlines()


class Skip(Exception):
    """There is nothing to fill a hole with."""


class Scope:
    """The names that a program has so far, at several sizes.

    Args:
      rng: Chooses.
      envs: Names and values by size, which are changed.
      args: Names of tensor arguments.
      hidden: The size that never changes.
    """

    def __init__(
        self,
        rng: random.Random,
        envs: list[dict[str, Any]],
        args: list[str],
        hidden: int,
    ) -> None:
        self.rng, self.envs, self.hidden = rng, envs, hidden
        self.tensors = [name for name in args if torch.is_tensor(envs[0][name])]
        self.ints = [name for name in args if type(envs[0][name]) is int]
        self.lines: list[str] = []
        self.deep = 0.35  # How often an expression of sizes is nested.
        self.families: dict[str, float] = {}
        self.plain = False  # Nothing that pins sizes on purpose.
        self._count = 0
        self._reset()

    def _reset(self) -> None:
        self._new: list[str] = []
        self._ints: list[str] = []
        self._y = ""
        self._t = ""
        self._d = 0

    def value(self, name: str) -> Any:
        """A name's value at the first sizes."""
        return self.envs[0][name]

    # Holes.

    def _choose(self, fits: Callable[[torch.Tensor], bool]) -> str:
        found = [name for name in self.tensors if fits(self.value(name))]
        if not found:
            raise Skip
        # The latest ones more often.
        if len(found) > 2 and self.rng.random() < 0.5:
            found = found[-2:]
        return self.rng.choice(found)

    def _everywhere(self, name: str, dim: int) -> bool:
        return all(
            env[name].dim() > abs(dim) - (dim < 0)
            and env[name].shape[dim] == self.hidden
            for env in self.envs
        )

    def _tensor(self, kind: str) -> str:
        rank = int(kind[1]) if len(kind) > 1 else None

        def fits(value: torch.Tensor) -> bool:
            return value.is_floating_point() and (
                rank is None or value.dim() == rank
            )

        names = [name for name in self.tensors if fits(self.value(name))]
        if kind[0] in "hk":
            dim = -1 if kind[0] == "h" else 1
            names = [one for one in names if self._everywhere(one, dim)]
        if not names:
            raise Skip
        if len(names) > 2 and self.rng.random() < 0.5:
            names = names[-2:]
        self._t = self.rng.choice(names)
        return self._t

    def _dim(self) -> int:
        rank = self.value(self._t).dim()
        if rank == 0:
            raise Skip
        dim = self.rng.randrange(rank)
        return dim if self.rng.random() < 0.6 else dim - rank

    def _size(self, name: str, dim: int) -> str:
        value = self.value(name)
        rank = value.dim()
        if not -rank <= dim < rank:
            raise Skip
        same = [
            one
            for one in self.ints
            if all(env[one] == env[name].shape[dim] for env in self.envs)
        ]
        if same and self.rng.random() < 0.5:
            return self.rng.choice(same)
        if self.rng.random() < 0.3:
            dim = dim - rank if dim >= 0 else dim + rank
        forms = [
            f"{name}.shape[{dim}]",
            f"{name}.shape[{dim}]",
            f"{name}.size({dim})",
            f"{name}.size()[{dim}]",
        ]
        if dim in (0, -rank) and self.rng.random() < 0.15:
            forms.append(f"len({name})")
        return self.rng.choice(forms)

    def _leaf(self) -> str:
        chance = self.rng.random()
        if self.ints and chance < 0.5:
            return self.rng.choice(self.ints)
        if chance < 0.93:
            name = self._choose(lambda value: value.dim() > 0)
            return self._size(name, self.rng.randrange(self.value(name).dim()))
        if chance < 0.96:
            return self._choose(lambda value: True) + ".numel()"
        return self.rng.choice(["CFG.k", "GK", "HID", "3"])

    def whole(self) -> str:
        """An expression of sizes."""
        if self.rng.random() > self.deep:
            return self._leaf()
        # The first ones are those that most programs have.
        most = 34 if self.plain else len(_OPERATORS)
        text = self.rng.choice(_OPERATORS[:most])
        return "(" + self._operate(text) + ")"

    def _operate(self, text: str) -> str:
        a, b = self.whole(), self.whole()
        text = text.replace("{a}", a).replace("{b}", b)
        return text.replace("{c}", str(self.rng.randint(2, 4)))

    def small(self) -> str:
        """An expression of sizes from 1 to 9, as far as is known."""
        for _ in range(6):
            text = self.whole()
            if all(
                type(value) is int and 1 <= value <= 9
                for value in self.evaluate(text)
            ):
                return text
        return str(self.rng.randint(1, 4))

    def real(self) -> str:
        """A float of sizes."""
        if self.rng.random() < 0.15:
            return self.rng.choice(["0.5", "1.5", "-2.0", "0.3"])
        return "(" + self._operate(self.rng.choice(_FLOATS)) + ")"

    def evaluate(self, text: str) -> list[Any]:
        """An expression's values at all sizes; None where it raises."""
        found = []
        for env in self.envs:
            self.ensure(text)
            try:
                found.append(eval(text, env))
            except Exception:
                found.append(None)
        return found

    def ensure(self, text: str) -> None:
        """Has the blocks that a text names in all worlds."""
        wanted = list(re.findall(r"[A-Za-z_]\w*", text))
        while wanted:
            name = wanted.pop()
            if name not in BLOCKS or name in self.envs[0]:
                continue
            for inner in re.findall(r"[A-Za-z_]\w*", BLOCKS[name]):
                if inner != name:
                    self.ensure(inner)
            for env in self.envs:
                exec(BLOCKS[name], env)

    def _nested(self, texts: str) -> str:
        kept = self._t, self._d
        text = self.fill(self.rng.choice(texts.splitlines()))
        self._t, self._d = kept
        return text

    def _hole(self, name: str) -> str:
        if name[0] in "thk" and (len(name) == 1 or name[1:].isdigit()):
            return self._tensor(name)
        if not self._t:
            self._tensor("t")
        if name in ("z0", "z1", "zl"):
            return self._size(self._t, {"z0": 0, "z1": 1, "zl": -1}[name])
        if name == "d":
            self._d = self._dim()
            return str(self._d)
        simple: dict[str, Callable[[], str]] = {
            "T": lambda: self._t,
            "u": lambda: self._choose(lambda v: v.is_floating_point()),
            "v": self._alike,
            "D": lambda: str(self._d),
            "e": lambda: str(self._dim()),
            "s": lambda: self._size(self._t, self._d),
            "n": self.whole,
            "p": self.small,
            "c": lambda: str(self.rng.randint(1, 4)),
            "f": self.real,
            "i": lambda: self._choose(lambda v: v.dtype == torch.int64),
            "new": self._fresh,
            "Y": lambda: self._new[-1],
            "int": self._fresh_int,
            "N": lambda: self._ints[-1],
            "y": self._target,
            "cond": lambda: self._nested(control.CONDITIONS),
            "keep": lambda: self._nested(control.KEEPS),
        }
        return simple[name]()

    def _alike(self) -> str:
        shape = self.value(self._t).shape
        return self._choose(
            lambda v: v.is_floating_point() and v.shape == shape
        )

    def _fresh(self) -> str:
        self._count += 1
        self._new.append(f"v{self._count}")
        return self._new[-1]

    def _fresh_int(self) -> str:
        self._count += 1
        self._ints.append(f"n{self._count}")
        return self._ints[-1]

    def _target(self) -> str:
        if not self._y:
            if self.tensors and self.rng.random() < 0.3:
                self._y = self.rng.choice(self.tensors)
            else:
                self._y = self._fresh()
        return self._y

    def fill(self, template: str) -> str:
        """Fills a template's holes in."""

        def put(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            return self._hole(match[1])

        return _HOLE.sub(put, template)

    # Statements.

    def statement(self, template: str) -> str | None:
        """Adds a statement; None if it didn't run at all sizes."""
        self._reset()
        try:
            text = self.fill(template).replace(";;", "\n")
        except (Skip, IndexError):  # Ranks may differ between sizes.
            return None
        if "=" not in re.sub(r"\(.*\)|\[.*\]|==|!=|<=|>=", "", text):
            bare = re.match(
                r"^\w+\.\w+_\(.*\)$|^(assert|CFG\.|torch\.nn)", text
            )
            if not bare or "\n" in text:
                reuses = self.tensors and self.rng.random() < 0.25
                name = self.rng.choice(self.tensors) if reuses else ""
                text = f"{name or self._fresh()} = {text}"
        if not self._runs(text):
            return None
        self.lines.append(text)
        for name in re.findall(r"\b(v\d+|n\d+)\b", text):
            value = self.envs[0].get(name)
            if torch.is_tensor(value) and name not in self.tensors:
                self.tensors.append(name)
            if type(value) is int and name not in self.ints:
                self.ints.append(name)
        self.tensors = [
            one
            for one in self.tensors
            if all(torch.is_tensor(env.get(one)) for env in self.envs)
        ]
        self.ints = [
            one
            for one in self.ints
            if all(type(env.get(one)) is int for env in self.envs)
        ]
        return text

    def _runs(self, text: str) -> bool:
        self.ensure(text)
        before = [dict(env) for env in self.envs]
        for env in self.envs:
            try:
                torch.default_generator.manual_seed(0)
                exec(text, env)
                fine = all(self._is_fine(env.get(one)) for one in env)
            except Exception:
                fine = False
            if not fine:
                for one, kept in zip(self.envs, before, strict=True):
                    one.clear()
                    one.update(kept)
                return False
        return True

    def _is_fine(self, value: Any) -> bool:
        if isinstance(value, int) and abs(value) > 10**6:
            return False
        if not torch.is_tensor(value):
            return True
        value = value.detach()
        if value.numel() > _MOST_ELEMENTS or value.dim() > 6:
            return False
        if value.is_complex():
            return False
        if not value.is_floating_point() or not value.numel():
            return True
        return bool((value.abs() <= _MOST).all())

    def draw(self) -> str | None:
        """Tries a statement of a family."""
        family = self.rng.choices(
            list(self.families), list(self.families.values())
        )[0]
        lines = templates.FAMILIES[family].splitlines()
        if self.plain and family == "ints":
            lines = lines[: control.PLAIN_INTS]
        return self.statement(self.rng.choice(lines))
