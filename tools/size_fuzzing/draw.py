"""Draws a whole case: arguments, calls, and a program that runs."""

from __future__ import annotations

import random
from typing import Any

from size_fuzzing import control, templates
from size_fuzzing.case import FORMS, Call, Case
from size_fuzzing.grammar import Scope
from size_fuzzing.worlds import World

_SHAPES = """\
B S HID
B S HID
B S HID
B S HID
B S
B S
B HID
S HID
S
B
S S
B S T
B S T
B HID S
B HID S
S B HID
B S S
B HID S T
B HID S S
B S T HID
B S 2 HID
B 3 S T
B S HID 2
2 S T
B B
2*S HID
B S+1
B S 4*T
B 2*S HID
B*S HID
S//2+1 T
4*B S
4 S
B S S//2+1""".splitlines()
_TIES = """\
B = S
S = B
T = S
T = B
S = 2 * B
S = B + 1
T = S + B
T = 2 * S
B = HID
S = HID
T = S - 1
S = B + 2
B = T
S = B * 2 - 1
T = B * S
K = S
K = B
K = S // 2
K = B + 1""".splitlines()
_LAYOUTS = """\
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({sizes}), {seed})
R(({last}{most}), {seed}).movedim(0, -1)
R(({back}), {seed}).permute({order})
R((2 * {sizes}), {seed})[::2]
R((3 + {sizes}), {seed})[3:]
R(({most}2 * {last}), {seed})[..., ::2]
R(({most}5 + {last}), {seed})[..., 2:-3]
R(({most}40), {seed})[..., :{last}]
R((40, {tail}), {seed})[:{first}]
R((1, {tail}), {seed}).expand({sizes})
R(({most}1), {seed}).expand({sizes})
R(({sizes}), {seed}).contiguous(memory_format=torch.channels_last)
R(({sizes}), {seed}).flip(0)
R(({sizes}2), {seed})[..., 1]
R(({sizes}), {seed}).reshape(-1)[:].view({sizes})""".splitlines()


class _Drawer:
    def __init__(self, rng: random.Random, case: Case, train: bool) -> None:
        self.rng, self.case, self.trains = rng, case, train

    # Sizes.

    def _one(self) -> int:
        small, large = self._range
        return self.rng.randint(small, large)

    def _all(self) -> dict[str, int]:
        return {name: self._one() for name in "BSTK"}

    def _tie(self, sizes: dict[str, int], ties: list[str]) -> None:
        for tie in ties:
            name, _, text = tie.partition(" = ")
            scope = {**sizes, "HID": self.case.hidden}
            sizes[name] = max(2, min(int(eval(text, scope)), 40))

    def calls(self) -> None:
        rng = self.rng
        self._range = rng.choice(
            [(2, 5), (2, 7), (2, 12), (2, 12), (3, 9), (4, 16), (2, 40)]
        )
        ties = rng.sample(_TIES, rng.choice([0, 0, 0, 1, 1, 2]))
        tied = rng.randint(2, 4)
        sizes = self._all()
        seen: list[dict[str, int]] = []
        open_dims = rng.choice(["B", "S", "BS", "BS", "BSTK", "BSTK", "ST"])
        for index in range(rng.randint(6, 14)):
            if index >= 4 and rng.random() < 0.4:
                open_dims = rng.choice(["B", "S", "T", "BST", "BSTK"])
            if seen and rng.random() < 0.15:
                sizes = dict(rng.choice(seen))
            elif index:
                sizes = dict(seen[-1])
                some = [name for name in open_dims if rng.random() < 0.7]
                for name in some or [rng.choice(open_dims)]:
                    sizes[name] = self._one()
                if rng.random() < 0.15:
                    name = rng.choice(open_dims)
                    sizes[name] = seen[-1][name] + rng.choice([1, -1, 2])
                if index > 3 and rng.random() < 0.06:
                    sizes[rng.choice("BST")] = rng.choice([0, 1, 1])
                if index > 3 and rng.random() < 0.1:
                    sizes[rng.choice("BST")] = rng.randint(13, 40)
            if index < tied:
                self._tie(sizes, ties)
            sizes = {name: max(one, 0) for name, one in sizes.items()}
            seen.append(sizes)
            self.case.calls.append(Call(sizes=dict(sizes)))

    # Arguments.

    def _shape(self, rank: int | None = None) -> list[str]:
        while True:
            shape = self.rng.choice(_SHAPES).split()
            if rank is None or len(shape) == rank:
                return shape

    def _tensor(self, shape: list[str], number: int, plain: bool) -> str:
        layout = _LAYOUTS[0] if plain else self.rng.choice(_LAYOUTS)
        seed = f"10 * AT + {number}"
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        back = [""] * len(shape)
        for to, dim in enumerate(order):
            back[dim] = shape[to]
        return layout.format(
            sizes="".join(f"{one}, " for one in shape),
            most="".join(f"{one}, " for one in shape[:-1]),
            tail="".join(f"{one}, " for one in shape[1:]),
            first=shape[0],
            last=shape[-1] + ("," if "movedim" in layout else ""),
            back="".join(f"{one}, " for one in back),
            order=", ".join(map(str, order)),
            seed=seed,
        )

    def arguments(self) -> None:
        rng, params = self.rng, self.case.params
        count = rng.choice([1, 1, 1, 2, 2, 3])
        plain = rng.random() < 0.75 or self.trains
        first = self._shape()
        for number, name in enumerate("xyz"[:count]):
            again = number and rng.random() < 0.4
            shape = first if again else first if not number else self._shape()
            text = self._tensor(shape, number, plain)
            if number and rng.random() < 0.08 and not self.trains:
                text = rng.choice(
                    ["x", "x[1:]", "x.mT", "x.view(-1)", "x[..., :2]"]
                )
            if self.trains and rng.random() < 0.5:
                text += ".requires_grad_()"
            params[name] = text
        if rng.random() < 0.2:
            high = rng.choice(["8", "S", "B", "4"])
            form = rng.choice(["(B, S)", "(S,)", "(B,)", "(B, 2)", "()"])
            params["q"] = f"J({form}, {high}, 10 * AT + 5)"
        if rng.random() < 0.3:
            params["k"] = rng.choice(
                ["K", "K", "S", "B", "S // 2", "B + 1", "3", "2 * S", "S - 1"]
                + ["AT + 2", "AT", "2 * AT + 3", "7 - AT", "AT % 3 + 2"]
            )
        if rng.random() < 0.15:
            self.case.before.append(
                rng.choice(
                    [
                        "CFG.k = K",
                        "CFG.k = S",
                        "CFG.k = B",
                        "CFG.k = S // 2",
                        "GK = K",
                        "GK = S",
                        "GK = B + 1",
                        "CFG.k = 3 if AT < 3 else S",
                        "GK = 2 if AT < 4 else 5",
                        "CFG.n = S",
                    ]
                )
            )
        if rng.random() < 0.07:
            call = rng.choice(self.case.calls[1:])
            name = rng.choice([one for one in params if one in "xyz"])
            call.args[name] = self._tensor(self._shape(), 7, False)
        if rng.random() < 0.05:
            params["x"] = params["x"].replace("10 * AT", "10")

    # The program.

    def body(self) -> bool:
        """Draws the program; False if none would run."""
        rng, case = self.rng, self.case
        if case.train == "inside":
            case.setup += [
                "NETS = nn.ModuleList([LIN, LN, MIX])",
                "PARAMS = [*NETS.parameters(), W]",
                "OPT = torch.optim.SGD(PARAMS, 0.1)",
            ]
        world = World(case)
        order = [0, 1, rng.randrange(2, len(case.calls))]
        if rng.random() < 0.15:
            order = [0]
        elif rng.random() < 0.15:
            order = [0, 1]
        envs: list[dict[str, Any]] = []
        for index in order:
            call = case.calls[index]
            fresh = World(case)
            try:
                made = fresh.arguments(call, index)
            except Exception:
                if len(envs) == 0:
                    return False
                continue
            envs.append({**fresh.names, **made})
        del world
        scope = Scope(rng, envs, list(case.params), case.hidden)
        scope.deep = rng.choice([0.05, 0.15, 0.25, 0.45])
        scope.plain = rng.random() < 0.75
        names = list(templates.FAMILIES)
        if scope.plain:
            names.remove("state")
            names.remove("branches")
        weights = {
            name: rng.choice([0.5, 1.0, 3.0])
            for name in rng.sample(names, rng.randint(1, 4))
        }
        weights.update((name, 6.0) for name in templates.PREFERRED)
        weights["views"] = weights.get("views", 0) + 0.5
        weights["parts"] = weights.get("parts", 0) + 0.5
        weights["ints"] = weights.get("ints", 0) + 0.4
        scope.families = weights
        if case.train:
            lines = ["LIN({h})", "{h} @ W", "MIX({h})", "LN({h})"]
            for _ in range(6):
                if scope.statement(rng.choice(lines)):
                    break
            else:
                if case.train == "inside":
                    return False
        lines = control.INTS.splitlines()[: control.PLAIN_INTS]
        if rng.random() < 0.5:
            scope.statement(rng.choice(lines))
        wanted = rng.choice([1, 1, 2, 2, 2, 3, 3, 4, 5, 7])
        kept = 0
        for _ in range(60):
            if kept == wanted:
                break
            kept += scope.draw() is not None
        if kept == 0:
            return False
        if case.train == "inside":
            lines = control.INNER_STEP.splitlines()
            for _ in range(12):
                if scope.statement(rng.choice(lines)):
                    break
            else:
                return False
        case.body = scope.lines
        made_tensors = [one for one in scope.tensors if one[0] == "v"]
        case.results = made_tensors[-rng.randint(1, 5) :] or ["x"]
        if rng.random() < 0.15:
            case.results.append(rng.choice(["x", *scope.tensors]))
        if rng.random() < 0.08 and scope.ints:
            case.results.append(rng.choice(scope.ints))
        if rng.random() < 0.04:
            case.results.append(rng.choice(scope.tensors) + ".shape")
        if rng.random() < 0.05:
            case.results.append(f"dict(a={case.results[0]}, b=[None])")
        return True


def draw(seed: int, number: int, exact: bool, train: bool) -> Case:
    """Case `number` of a run."""
    for again in range(100):
        rng = random.Random(f"{seed} {number} {again}")
        case = Case(seed=seed, number=number, exact=exact)
        case.hidden = rng.choice([8, 8, 4, 6])
        case.dtype = "float64" if rng.random() < 0.25 else "float32"
        case.form = rng.choice(["function"] * 4 + list(FORMS))
        if train:
            case.train = rng.choice(["outside", "outside", "inside"])
        drawer = _Drawer(rng, case, case.train == "outside")
        drawer.calls()
        drawer.arguments()
        if drawer.body():
            return case
    raise RuntimeError("no program can be drawn")
