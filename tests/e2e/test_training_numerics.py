"""Twenty training steps stay as near to float64 as eager's own float32 does.

The truth is the same run in float64, eagerly. A run's error is the largest
distance of its losses from the truth's. Errors of one run are luck: each
rounding is blown up or damped by the steps after it. They are therefore
compared over several runs that differ in their weights and data.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import mica
import zoo_training
from vision_operators import define_vision_operators

_STEPS = 20
# The loss is itself a float32 number, and a mean of logarithms of sums: it
# can't be told from the truth by less than a few units in its last place.
_FLOOR_ULPS = 4

Batch = dict[str, torch.Tensor]
Loss = Callable[[torch.nn.Module, Batch], torch.Tensor]


@dataclass(frozen=True)
class Setup:
    """A model in training mode, its loss, and a batch from a generator."""

    make: Callable[[], torch.nn.Module]
    draw: Callable[[torch.Generator], Batch]
    loss: Loss
    # A deep net with batch norm over few pixels blows errors up: at a high
    # rate all runs are soon as far from the truth as from each other.
    rate_scale: float = 1.0
    seeds: int = 3


def _image_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"])


def _text_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    loss: torch.Tensor = model(**batch).loss
    return loss


def _images(shape: tuple[int, ...], classes: int) -> Callable[..., Batch]:
    def draw(generator: torch.Generator) -> Batch:
        x = torch.randn(shape, generator=generator)
        y = torch.randint(0, classes, shape[:1], generator=generator)
        return {"x": x, "y": y}

    return draw


def _tokens(labels: int | None) -> Callable[..., Batch]:
    def draw(generator: torch.Generator) -> Batch:
        ids = torch.randint(0, 50, (4, 12), generator=generator)
        if labels is None:
            return {"input_ids": ids, "labels": ids}
        y = torch.randint(0, labels, (4,), generator=generator)
        return {"input_ids": ids, "labels": y}

    return draw


def _digits() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 4 * 4, 10),
    )


def _resnet() -> torch.nn.Module:
    pytest.importorskip("torchvision")
    model: torch.nn.Module = importlib.import_module(
        "torchvision.models"
    ).resnet18(num_classes=10)
    return model


def _bert() -> torch.nn.Module:
    model: torch.nn.Module = zoo_training.bert(50, 32, 2, 64, positions=32)
    return model


def _gpt() -> torch.nn.Module:
    model: torch.nn.Module = zoo_training.gpt(50, 32, 2, positions=32)
    return model


_SETUPS = {
    "digits": Setup(_digits, _images((32, 1, 8, 8), 10), _image_loss),
    # Chaotic: a seed's error tells whether a window of a pool has changed its
    # mind, 1e-6 or 1e-2, and either side may be the lucky one.
    "resnet18": Setup(
        _resnet, _images((8, 3, 32, 32), 10), _image_loss, 0.01, 4
    ),
    "bert": Setup(_bert, _tokens(2), _text_loss),
    "gpt": Setup(_gpt, _tokens(None), _text_loss),
}


def _sgd(parameters: Iterable[Any], scale: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01 * scale, momentum=0.9)


def _adamw(parameters: Iterable[Any], scale: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3 * scale)


_OPTIMIZERS = {"sgd": _sgd, "adamw": _adamw}


def _make_step(
    setup: Setup, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Callable[[Batch], torch.Tensor]:
    def step(batch: Batch) -> torch.Tensor:
        optimizer.zero_grad()
        loss = setup.loss(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _in_double(batch: Batch) -> Batch:
    return {
        name: t.double() if t.is_floating_point() else t
        for name, t in batch.items()
    }


@dataclass
class Losses:
    """Of each step of one run, three times."""

    exact: torch.Tensor
    eager: torch.Tensor
    ours: torch.Tensor

    def error(self, losses: torch.Tensor) -> float:
        return (losses - self.exact).abs().max().item()

    @property
    def ulp(self) -> float:
        return self.exact.abs().max().item() * 2.0**-23


def _train(setup: Setup, make_optimizer: Any, seed: int) -> Losses:
    torch.manual_seed(seed)
    model = setup.make().train()
    generator = torch.Generator().manual_seed(seed)
    batches = [setup.draw(generator) for _ in range(_STEPS)]

    def run(model: torch.nn.Module, wrap: Any, convert: Any) -> torch.Tensor:
        optimizer = make_optimizer(model.parameters(), setup.rate_scale)
        step = wrap(_make_step(setup, model, optimizer))
        losses = [step(convert(batch)).double() for batch in batches]
        if wrap is mica.compile:
            report = mica.explain(step)
            assert report.hits >= _STEPS - 2, str(report)
            for graph in report.graphs:
                assert not graph.opaque, graph.opaque
        return torch.stack(losses)

    return Losses(
        exact=run(copy.deepcopy(model).double(), lambda f: f, _in_double),
        eager=run(copy.deepcopy(model), lambda f: f, dict),
        ours=run(model, mica.compile, dict),
    )


@pytest.mark.parametrize("optimizer", _OPTIMIZERS)
@pytest.mark.parametrize("name", _SETUPS)
def test_losses_are_as_exact_as_eagers(name: str, optimizer: str) -> None:
    define_vision_operators()
    setup = _SETUPS[name]
    runs = [
        _train(setup, _OPTIMIZERS[optimizer], seed)
        for seed in range(setup.seeds)
    ]
    ours = max(run.error(run.ours) for run in runs)
    eager = max(run.error(run.eager) for run in runs)
    floor = _FLOOR_ULPS * max(run.ulp for run in runs)
    print(f"{name} {optimizer}: ours {ours:.2e} eager {eager:.2e} {floor:.1e}")
    assert ours <= 2 * eager + floor


@pytest.mark.parametrize("optimizer", _OPTIMIZERS)
@pytest.mark.parametrize("name", ["digits", "gpt"])
def test_a_cosine_rate_is_recorded_twice_at_most(
    name: str, optimizer: str
) -> None:
    setup = _SETUPS[name]
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    batches = [setup.draw(generator) for _ in range(4)]

    def start() -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = setup.make().train()
        made = _OPTIMIZERS[optimizer](model.parameters(), 1.0)
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(made, 300)
        return _make_step(setup, model, made), rate

    step, rate = start()
    ours = mica.compile(step)
    captures = []
    for i in range(300):
        ours(batches[i % 4])
        rate.step()
        captures.append(mica.explain(ours).captures)
    assert captures[-1] <= 2
    assert captures[1] == captures[-1]
    assert mica.explain(ours).hits >= 298
