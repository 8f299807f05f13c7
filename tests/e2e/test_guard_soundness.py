"""Whatever is changed in what a program can reach, its result stays eager's.

Takes models apart down to every attribute, list item and dict item, changes
one thing at a time between calls, and demands the plain model's result.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
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
