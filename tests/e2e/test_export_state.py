"""What exported programs keep: optimizers, rates, numbers, caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import mica
import zoo


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICA_NUM_THREADS", "1")


def test_a_cache_comes_back_with_its_dtype(tmp_path: Path) -> None:
    entry = next(e for e in zoo.ENTRIES if e.name == "GPT-2 cache")
    args, _ = entry.inputs("small", 2, 9)
    model = entry.make("small")
    with torch.no_grad():
        mica.export(model, args, tmp_path / "net")
        want = model(*args)
    got = mica.load(tmp_path / "net")(*args)
    torch.testing.assert_close(got["last_hidden_state"], want.last_hidden_state)
    for one, other in zip(
        got["past_key_values"]["layers"],
        want.past_key_values.layers,
        strict=True,
    ):
        assert one["dtype"] is other.dtype
        assert one["device"] == other.device
        torch.testing.assert_close(one["keys"], other.keys)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3
    ),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2),
}


def training_step(
    make_optimizer: Callable[[Any], torch.optim.Optimizer],
) -> tuple[Any, Callable[[float], None]]:
    """A compiled step that was called at two rates, and how to set the rate."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)
    )
    optimizer = make_optimizer(model.parameters())

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def set_rate(rate: float) -> None:
        optimizer.param_groups[0]["lr"] = rate

    compiled = mica.compile(step)
    for rate in (0.02, 0.03, 0.04, 0.05):
        set_rate(rate)
        compiled(*batch(0))
    return compiled, set_rate


def test_a_number_that_no_input_decides_is_no_choice(tmp_path: Path) -> None:
    def mask(x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(4)
        return x * 2 if bool((positions.diff() == 1).all()) else x

    with torch.no_grad():
        mica.export(mask, (torch.ones(4),), tmp_path / "mask")
    loaded = mica.load(tmp_path / "mask")
    assert torch.equal(loaded(torch.ones(4)), torch.full((4,), 2.0))
    assert len(loaded.program.outputs) == 1


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 4, generator=generator)
    return x, torch.randint(0, 3, (6,), generator=generator)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_exported_step_trains_as_the_original(
    name: str, tmp_path: Path
) -> None:
    step, set_rate = training_step(OPTIMIZERS[name])
    mica.export(step, batch(0), tmp_path / "step")
    loaded = mica.load(tmp_path / "step")
    [rate] = loaded.numbers
    assert rate.endswith("lr")
    assert loaded.numbers[rate] == 0.05
    for seed in range(1, 6):
        set_rate(0.1 / seed)
        loaded.numbers[rate] = 0.1 / seed
        assert torch.equal(loaded(*batch(seed)), step(*batch(seed)))
    names = set(loaded.state_dict())
    assert {"model.0.weight", "model.2.bias"} <= names
    for other in names:
        assert other.startswith(("model.", "optimizer.model."))
    # What was trained goes on from a second export, rate and all.
    loaded.export(tmp_path / "again")
    again = mica.load(tmp_path / "again")
    assert again.numbers == loaded.numbers
    assert torch.equal(again(*batch(9)), loaded(*batch(9)))


def test_a_number_that_varied_is_an_argument(tmp_path: Path) -> None:
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    compiled = mica.compile(scale)
    x = torch.ones(3)
    with torch.no_grad():
        for factor in (1.5, 2.5, 3.5):
            compiled(x, factor)
        mica.export(compiled, (x, 4.5), tmp_path / "scale")
    loaded = mica.load(tmp_path / "scale")
    assert torch.equal(loaded(x, 7.25), x * 7.25)
    with pytest.raises(TypeError, match="factor: wants a float, got int"):
        loaded(x, 7)


def test_a_number_of_another_name_is_told(tmp_path: Path) -> None:
    step, _ = training_step(OPTIMIZERS["momentum"])
    mica.export(step, batch(0), tmp_path / "step")
    loaded = mica.load(tmp_path / "step")
    loaded.numbers["lr"] = 0.1
    with pytest.raises((LookupError, ValueError), match="lr"):
        loaded(*batch(0))
