"""Whatever is changed in what a program can reach, its result stays eager's.

Takes models, and what code holds (globals, closures, defaults, classes), apart
down to every attribute and item, changes one thing at a time between calls, and
demands the plain program's result.
"""

from __future__ import annotations

import collections
import copy
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import mica

Undo = Callable[[], None]


def other_value(value: Any) -> Iterator[Any]:
    """Values that differ from `value` and may be in its place."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value * 1.5 + 0.25
    elif isinstance(value, str):
        yield value + "x"
    elif value is None:
        yield 1.0
        yield torch.ones(4)
    elif isinstance(value, nn.Parameter):
        yield nn.Parameter(value.detach() * 1.5 + 0.1)
        yield None
    elif isinstance(value, torch.Tensor):
        yield value.double() if value.is_floating_point() else value + 1
    elif isinstance(value, nn.Module):
        yield nn.Identity()
    elif callable(value):
        yield lambda *args, **kwargs: value(*args, **kwargs) * 2


def places(
    root: Any, seen: set[int] | None = None
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Each (kind, container, key, value) that can be reached from `root`."""
    seen = set() if seen is None else seen
    if id(root) in seen:
        return
    seen.add(id(root))
    items: list[tuple[str, Any, Any]] = []
    if isinstance(root, dict):
        items = [("item", k, v) for k, v in root.items()]
    elif isinstance(root, list):
        items = [("item", i, v) for i, v in enumerate(root)]
    elif hasattr(root, "__dict__") and not isinstance(
        root, (type, torch.Tensor)
    ):
        items = [("attribute", k, v) for k, v in vars(root).items()]
    for kind, key, value in items:
        yield kind, root, key, value
        if isinstance(value, (dict, list, nn.Module)) or type(
            value
        ).__module__.startswith(("tests", "test_guard", __name__)):
            yield from places(value, seen)


def put(kind: str, container: Any, key: Any, value: Any) -> None:
    if kind == "attribute":
        vars(container)[key] = value
    else:
        container[key] = value


# Numbers in all places where Python code keeps them; `program` reads each.
HOLDERS = """
import collections, dataclasses, enum, functools, types
import torch

NUMBER, RATE, TEXT, FLAG, NOTHING = 1, 0.5, "ab", True, None
TUPLE = (1, [2.0, {"n": 3}])
LIST = [1, [2.0]]
DICT = {"n": 1, "inner": {"n": 2}}
SET = {1, 2}
DEQUE = collections.deque([1, 2])
ORDERED = collections.OrderedDict(a=1, b=2)
DEFAULT = collections.defaultdict(int, a=1)
COUNTER = collections.Counter(a=2)
SPACE = types.SimpleNamespace(n=1, d={"n": 2})
TENSOR = torch.ones(3)
UNUSED = 1

class Base:
    FACTOR = 2
    TABLE = {"n": 1}
    def base(self):
        return self.FACTOR + self.TABLE["n"]

class Holder(Base):
    SCALE = 1.5
    LEVELS = [1, 2]
    def __init__(self):
        self.n, self.d, self.t = 1, {"n": 1}, torch.ones(3)
    @property
    def twice(self):
        return self.n * 2
    @staticmethod
    def plus(a, b=1, *, c=2):
        return a + b + c
    @classmethod
    def scaled(cls, a, factor={"n": 2}):
        return a * cls.SCALE * factor["n"]

class Slotted:
    __slots__ = ("n", "d")
    def __init__(self):
        self.n, self.d = 1, {"n": 1}

@dataclasses.dataclass
class Data:
    n: int = 1
    d: dict = dataclasses.field(default_factory=lambda: {"n": 1})

class Kind(enum.Enum):
    A = 1
    B = 2

KIND = Kind.A
HOLDER, SLOTTED, DATA = Holder(), Slotted(), Data()
PAIR = collections.namedtuple("Pair", "n d")(1, {"n": 1})

def defaults(a, b=1, c=(1, 2), d={"n": 1}, *, e=2, f={"n": 1}):
    return a + b + c[1] + d["n"] + e + f["n"]
defaults.extra = {"n": 1}
defaults.level = 1

def make_closure():
    n, d, items = 1, {"n": 1}, [1]
    def closure(a):
        return a * n + d["n"] + len(items) + items[0]
    return closure
closure = make_closure()

@functools.lru_cache
def remembered(key):
    return {"n": key}
remembered(1)

@functools.cache
def kept(key):
    return [key]
kept(2)

PARTIAL = functools.partial(defaults, b=3, d={"n": 2})
BOUND = DICT.get
METHOD = HOLDER.base
ITEMS = [Holder(), Slotted()]

def helper(a):
    return a + NUMBER

def program(a):
    a = helper(a) * RATE + len(TEXT)
    if FLAG and NOTHING is None:
        a = a + 1
    a = a + TUPLE[0] + TUPLE[1][0] + TUPLE[1][1]["n"]
    a = a + LIST[0] + LIST[1][0] + DICT["n"] + DICT["inner"]["n"]
    a = a + sum(SET) + DEQUE[0] + len(DEQUE) + sum(ORDERED.values())
    a = a + DEFAULT["a"] + COUNTER["a"] + SPACE.n + vars(SPACE)["d"]["n"]
    a = a * TENSOR + HOLDER.base() + HOLDER.twice + HOLDER.n + HOLDER.d["n"]
    a = Holder.scaled(Holder.plus(a)) * HOLDER.t + sum(Holder.LEVELS)
    a = a + Holder().TABLE["n"] + Slotted().n + SLOTTED.n + SLOTTED.d["n"]
    a = a + DATA.n + DATA.d["n"] + PAIR.n + PAIR.d["n"] + KIND.value
    a = closure(defaults(a)) + defaults.extra["n"] + defaults.level
    a = a + remembered(1)["n"] + kept(2)[0] + BOUND("n") + METHOD()
    return PARTIAL(a) + ITEMS[0].n + ITEMS[1].d["n"]
"""


class Options:
    def __init__(self) -> None:
        self.gain = 1.5
        self.steps = [1, 2, 3]
        self.flags = {"bias": True, "shift": 0.5}


class Block(nn.Module):
    def __init__(self, options: Options) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4)
        self.act = nn.GELU()
        self.options = options
        self.register_buffer("offset", torch.arange(4.0))
        self.pick = torch.relu

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        h = self.act(self.fc(self.norm(a))) * self.options.gain
        for step in self.options.steps:
            h = h + step
        if self.options.flags["bias"]:
            h = h + self.offset
        return self.pick(h) + self.options.flags.get("shift", 0.0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        options = Options()
        self.blocks = nn.ModuleList([Block(options) for _ in range(2)])
        self.drop = nn.Dropout(0.1)
        self.bn = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(4) * 2)
        self.names = ["a", "b"]

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            a = a + block(a)
        return self.drop(self.bn(a)) * self.scale * len(self.names)


def outcome(fn: Any, a: torch.Tensor) -> Any:
    torch.manual_seed(1)
    try:
        return fn(a)
    except Exception as error:
        return type(error)


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and torch.allclose(a, b, equal_nan=True)
        )
    return bool(a == b)


@pytest.mark.parametrize("frozen", [False, True])
def test_any_change_of_state_is_seen(frozen: bool) -> None:
    torch.manual_seed(0)
    model = Model().eval()
    torch.manual_seed(0)
    a = torch.randn(3, 4)
    wrong, tried, unnoticed = [], 0, 0
    with torch.no_grad():
        count = len(list(places(model)))
        compiled: Any = mica.compile(model, frozen=frozen)
        for index in range(count):
            kind, container, key, value = list(places(model))[index]
            for changed in other_value(value):
                compiled(a)
                assert compiled._mica_matches(a)
                put(kind, container, key, changed)
                try:
                    unnoticed += compiled._mica_matches(a)
                    want = outcome(model, a)
                    if not agree(want, outcome(compiled, a)):
                        wrong.append((type(container).__name__, key, changed))
                finally:
                    put(kind, container, key, value)
                tried += 1
                if not agree(outcome(model, a), outcome(compiled, a)):
                    wrong.append((type(container).__name__, key, "undone"))
    assert not wrong
    assert tried > 80
    assert tried // 3 < unnoticed < tried


def test_any_change_of_a_class_or_a_function_is_seen() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    a = torch.randn(3, 4)
    with torch.no_grad():
        compiled = mica.compile(model)
        for cls in (Model, Block, nn.Linear, nn.GELU, nn.LayerNorm):
            original = cls.forward

            def doubled(self: Any, x: Any, _f: Any = original) -> Any:
                return _f(self, x) * 2

            compiled(a)
            cls.forward = doubled  # type: ignore[assignment,method-assign]
            try:
                assert agree(outcome(model, a), outcome(compiled, a)), cls
            finally:
                cls.forward = original  # type: ignore[assignment,method-assign]
            assert agree(outcome(model, a), outcome(compiled, a)), cls


def test_any_change_of_a_tensors_metadata_is_seen() -> None:
    model = nn.Linear(4, 4)
    a = torch.randn(4, 4)
    with torch.no_grad():
        compiled = mica.compile(model)
        plain = copy.deepcopy(model)
        for change in (
            lambda w: w.data.t_(),
            lambda w: setattr(w, "data", w.data.double().float()),
            lambda w: setattr(w, "data", torch.randn(4, 8)[:, ::2]),
            lambda w: setattr(w, "data", w.data.t().contiguous()),
            lambda w: w.data.resize_(4, 4),
            lambda w: w.requires_grad_(False),
            lambda w: w.set_(torch.ones(4, 4)),
        ):
            compiled(a), compiled(a)
            for module in (model, plain):
                torch.manual_seed(2)
                change(module.weight)
            assert agree(outcome(plain, a), outcome(compiled, a))


def is_served(compiled: Any, a: torch.Tensor) -> bool:
    """Whether calls come to be served: who changes what a program holds before
    each other call makes it rest at times, as finding that nothing fits may
    take longer than the program does."""
    for _ in range(10_000):
        compiled(a)
        if compiled._mica_matches(a):
            return True
    return False


Place = tuple[str, Any, Callable[[Any], None]]


def held(value: Any, path: str, seen: set[int]) -> Iterator[Place]:
    """Each (path, value, setter) in what HOLDERS makes."""
    if id(value) in seen or isinstance(value, (torch.dtype, property)):
        return
    seen.add(id(value))

    def each(items: Iterable[tuple[Any, Any]], form: str, put: Any) -> Any:
        for key, part in list(items):
            name = path + form.format(key)
            yield name, part, lambda new, key=key: put(key, new)
            yield from held(part, name, seen)

    if isinstance(value, (dict, list, collections.deque)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        yield from each(pairs, "[{!r}]", value.__setitem__)
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from held(part, f"{path}[{i}]", seen)
    elif isinstance(value, (staticmethod, classmethod)):
        yield from held(value.__func__, path, seen)
    elif isinstance(value, functools.partial):
        yield from held(value.keywords, path + ".keywords", seen)
    elif isinstance(value, types.FunctionType):
        yield from each(vars(value).items(), ".{}", vars(value).__setitem__)
        cells = enumerate(value.__closure__ or ())
        for i, cell in cells:
            name = f"{path}.__closure__[{i}]"
            yield (
                name,
                cell.cell_contents,
                partial(setattr, cell, "cell_contents"),
            )
            yield from held(cell.cell_contents, name, seen)
        for i, part in enumerate(value.__defaults__ or ()):

            def put_default(new: Any, i: int = i) -> None:
                now = list(value.__defaults__ or ())
                value.__defaults__ = (*now[:i], new, *now[i + 1 :])

            yield f"{path}.__defaults__[{i}]", part, put_default
            yield from held(part, f"{path}.__defaults__[{i}]", seen)
        names = value.__kwdefaults__ or {}
        yield from each(names.items(), " {}=", names.__setitem__)
    elif isinstance(value, type) and value.__module__ == "holders":
        own = [(k, v) for k, v in vars(value).items() if k[:2] != "__"]
        yield from each(own, ".{}", partial(setattr, value))
    elif type(value).__module__ == "holders" or isinstance(
        value, types.SimpleNamespace
    ):
        names = getattr(type(value), "__slots__", None) or vars(value)
        own = [(n, getattr(value, n)) for n in names]
        yield from each(own, ".{}", partial(setattr, value))


def test_any_change_of_what_code_holds_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holders = types.ModuleType("holders")
    monkeypatch.setitem(sys.modules, "holders", holders)
    world = vars(holders)
    exec(compile(HOLDERS, "<holders>", "exec"), world)
    program, a = world["program"], torch.arange(3.0)
    # Captures may take as long as a machine under load makes them.
    with mica.options.set(capture_budget=1e6):
        compiled: Any = mica.compile(program)
    mine = {k: v for k, v in world.items() if k[:2] != "__"}
    places = [
        (name, value, partial(world.__setitem__, name))
        for name, value in mine.items()
    ]
    seen: set[int] = set()
    for name, value in mine.items():
        places += held(value, name, seen)
    wrong, tried, unnoticed = [], 0, 0
    with torch.no_grad():
        for path, value, put in places:
            for changed in other_value(value):
                assert is_served(compiled, a), path
                put(changed)
                try:
                    unnoticed += compiled._mica_matches(a)
                    if not agree(outcome(program, a), outcome(compiled, a)):
                        wrong.append((path, changed))
                finally:
                    put(value)
                tried += 1
                if not agree(outcome(program, a), outcome(compiled, a)):
                    wrong.append((path, "undone"))
    assert not wrong
    assert tried > 80
    assert unnoticed < tried // 3
