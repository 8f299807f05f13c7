"""Whole models and training steps, exported: Python and mica_run alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from e2e.model_checks import tensors
from e2e.test_export import BIN, tool
from safetensors.torch import load_file, save_file

import mica
import zoo
from mica import signature

needs_tools = pytest.mark.skipif(
    not (BIN / "mica_run").exists(), reason="the tools are not built"
)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICA_NUM_THREADS", "1")


@needs_tools
@pytest.mark.parametrize("entry", zoo.ENTRIES, ids=lambda e: e.name)
def test_a_model_runs_without_python(entry: zoo.Entry, tmp_path: Path) -> None:
    zoo.define_vision_operators()
    if entry.family == "vision":
        pytest.importorskip("torchvision")
        if entry.name in ("ConvNeXt-tiny", "MLP-Mixer"):
            pytest.importorskip("timm")
    args, kwargs = entry.inputs("small", 2, 9)
    model = entry.make("small")
    with torch.no_grad():
        mica.export(model, args, tmp_path / "net", kwargs=kwargs)
        want = tensors(model(*args, **kwargs))
    loaded = mica.load(tmp_path / "net")
    results = tensors(loaded(*args, **kwargs))
    for got, eager in zip(results, want, strict=True):
        torch.testing.assert_close(got, eager, rtol=1e-3, atol=1e-3)

    given, _ = signature.flatten(loaded._signature, args, kwargs)
    names = loaded._input_names
    feeds = {
        name: value.contiguous()
        for name, value in zip(names, given, strict=True)
    }
    save_file(feeds, tmp_path / "feeds.safetensors")
    done = tool(
        "mica_run",
        f"--program={tmp_path / 'net'}",
        f"--feeds={tmp_path / 'feeds.safetensors'}",
        f"--out={tmp_path / 'out.safetensors'}",
    )
    assert done.returncode == 0, done.stderr
    outputs = list(load_file(tmp_path / "out.safetensors").values())
    for got in results:
        # A result may be a view of what the Program returns.
        assert any(
            output.dtype == got.dtype and bool(torch.isin(got, output).all())
            for output in outputs
        )


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
