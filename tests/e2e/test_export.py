"""Exported programs, as Python and the tools without Python take them."""

from __future__ import annotations

import os
import subprocess
import time
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import mica

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MICA_BIN", ROOT / "build" / "bin"))

Pair = namedtuple("Pair", "left right")


@dataclass
class Parts:
    total: torch.Tensor
    count: int


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.fc(x))
        self.calls.add_(1)
        return y


def net() -> Net:
    return Net().eval().requires_grad_(False)


def tool(name: str, *flags: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / name), *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},
    )


def round_trip(
    fn: Callable[..., Any], args: tuple[Any, ...], path: Path, **kwargs: Any
) -> mica.Loaded:
    with torch.no_grad():
        mica.export(fn, args, path, **kwargs)
    return mica.load(path)


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def test_a_loaded_module_gives_the_same_and_keeps_state_of_its_own(
    tmp_path: Path,
) -> None:
    model = net()
    loaded = round_trip(model, (X,), tmp_path / "net")
    before = model.calls.clone()
    assert set(loaded.state_dict()) == {"fc.weight", "fc.bias", "calls"}
    assert torch.equal(loaded(X * 2), model(X * 2))
    assert torch.equal(loaded(X), model(X))
    assert torch.equal(loaded.state_dict()["calls"], before + 2)
    assert torch.equal(model.calls, before + 2)


def test_export_takes_a_record_that_fits_and_runs_nothing(
    tmp_path: Path,
) -> None:
    model = net()
    compiled = mica.compile(model)
    with torch.no_grad():
        compiled(X)
    assert torch.equal(model.calls, torch.ones(3))
    loaded = round_trip(compiled, (X,), tmp_path / "net")
    assert torch.equal(model.calls, torch.ones(3))
    assert torch.equal(loaded.state_dict()["calls"], torch.ones(3))


def test_a_loaded_program_is_exported_again_with_its_state(
    tmp_path: Path,
) -> None:
    loaded = round_trip(net(), (X,), tmp_path / "one")
    loaded(X)
    mica.export(loaded, (X,), tmp_path / "two")
    again = mica.load(tmp_path / "two")
    for name, value in loaded.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    assert torch.equal(again(X), loaded(X))
    again.load_state_dict(
        {**again.state_dict(), "fc.bias": torch.full((3,), 9.0)}
    )
    assert (again(X) >= 7).all()
    with pytest.raises(ValueError, match="'fc.bias'.*float32.*float64"):
        again.load_state_dict(
            {**again.state_dict(), "fc.bias": torch.zeros(3).double()}
        )


def nested(batch: dict[str, Any], scale: float, *, extra: Any) -> Any:
    x = batch["x"]
    y = x * scale + extra[0][1]
    return {
        "y": y,
        "views": [y.t(), y[:, 1:3], x],
        "pair": Pair(y.sum(), 3),
        "parts": Parts(y.mean(), 2),
        "same": (y, None, "text", extra),
    }


def test_arguments_and_results_keep_their_nesting(tmp_path: Path) -> None:
    def call(fn: Callable[..., Any], x: torch.Tensor) -> tuple[Any, Any]:
        extra = [(1, torch.full((4,), 0.5))]
        return fn({"x": x, "mask": None}, 2.0, extra=extra), extra

    loaded = round_trip(
        nested,
        ({"x": X, "mask": None}, 2.0),
        tmp_path / "nested",
        kwargs={"extra": [(1, torch.full((4,), 0.5))]},
    )
    x = torch.randn(2, 4)
    want, _ = call(nested, x)
    got, extra = call(loaded, x)
    assert list(got) == list(want)
    assert torch.equal(got["y"], want["y"])
    for one, other in zip(got["views"], want["views"], strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()
    assert got["views"][2] is x
    got["y"][0, 1] = 99
    assert got["views"][0][1, 0] == 99
    assert torch.allclose(got["pair"][0], want["pair"].left)
    assert got["pair"][1] == 3
    assert got["parts"]["count"] == 2
    assert torch.allclose(got["parts"]["total"], want["parts"].total)
    assert got["same"][0] is got["y"]
    assert got["same"][1:3] == (None, "text")
    assert got["same"][3] is extra


def test_calls_that_do_not_fit_are_told(tmp_path: Path) -> None:
    loaded = round_trip(
        nested,
        ({"x": X, "mask": None}, 2.0),
        tmp_path / "nested",
        kwargs={"extra": [(1, torch.ones(4))]},
    )
    extra = [(1, torch.ones(4))]
    batch = {"x": X, "mask": None}
    loaded(scale=2.0, batch=batch, extra=extra)
    for error, message, args, kwargs in (
        (TypeError, "wants an argument 'extra'", (batch, 2.0), {}),
        (
            TypeError,
            "unknown argument 'z'",
            (batch, 2.0),
            dict(extra=extra, z=1),
        ),
        (ValueError, "scale.*2.0, got 3.0", (batch, 3.0), dict(extra=extra)),
        (ValueError, "scale.*2.0, got 2$", (batch, 2), dict(extra=extra)),
        (TypeError, "batch: wants a dict", ({"x": X}, 2.0), dict(extra=extra)),
        (
            TypeError,
            r"extra\[0\]: wants a tuple of 2",
            (batch, 2.0),
            dict(extra=[X]),
        ),
        (
            TypeError,
            r"extra\[0\]\[1\]: wants a tensor",
            (batch, 2.0),
            dict(extra=[(1, 2)]),
        ),
        (
            ValueError,
            r"f32\[2,4\]",
            ({"x": X.double(), "mask": None}, 2.0),
            dict(extra=extra),
        ),
    ):
        with pytest.raises(error, match=message):
            loaded(*args, **kwargs)


def test_arguments_that_are_written_are_written(tmp_path: Path) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sum()

    loaded = round_trip(step, (torch.ones(3),), tmp_path / "step")
    x = torch.ones(3)
    version = x._version
    assert loaded(x) == 6
    assert torch.equal(x, torch.full((3,), 2.0))
    assert x._version > version


def test_constants_too_large_for_the_text_are_weights(tmp_path: Path) -> None:
    table = [float(i) for i in range(2000)]

    def shift(x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor(table)

    loaded = round_trip(shift, (torch.ones(2000),), tmp_path / "shift")
    x = torch.randn(2000)
    assert torch.equal(loaded(x), shift(x))


def test_names_follow_the_modules_that_are_given(tmp_path: Path) -> None:
    inner = net()

    def run(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    loaded = round_trip(run, (X,), tmp_path / "a", modules={"": inner})
    assert set(loaded.state_dict()) == set(inner.state_dict())
    loaded = round_trip(run, (X,), tmp_path / "b", modules={"m": inner})
    assert set(loaded.state_dict()) == {
        f"m.{name}" for name in inner.state_dict()
    }
    with pytest.raises(TypeError, match="wants a module"):
        mica.export(run, (X,), tmp_path / "c", modules={"x": 3})


def test_what_can_not_be_exported_says_why(tmp_path: Path) -> None:
    def reads(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if bool(x.sum() > -9) else x

    def opaque(x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)

    def refused(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0)
        return x + 1

    def prints(x: torch.Tensor) -> torch.Tensor:
        print("")
        return x + 1

    def takes(x: torch.Tensor, model: Any) -> torch.Tensor:
        return model(x)

    base = torch.zeros(4)
    left, right = base, base[1:]

    def shared(x: torch.Tensor) -> torch.Tensor:
        left.add_(x)
        return right * 2

    path = tmp_path / "none"
    with torch.no_grad():
        with pytest.raises(NotImplementedError, match=r"test_export.py:\d+"):
            mica.export(reads, (X,), path)
        with pytest.raises(
            NotImplementedError,
            match=r"bessel_j0 \(.*test_export.py:\d+\)",
        ):
            mica.export(opaque, (X,), path)
        with pytest.raises(mica.CaptureError, match="refused.*sleep"):
            mica.export(refused, (X,), path)
        with pytest.raises(NotImplementedError, match="calls builtins.print"):
            mica.export(prints, (X,), path)
        with pytest.raises(
            NotImplementedError, match="argument model is a Net"
        ):
            mica.export(takes, (X, net()), path)
        with pytest.raises(ValueError, match="share memory"):
            mica.export(shared, (torch.ones(4),), path)
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis" / "text").write_text("")
        with pytest.raises(ValueError, match="something else"):
            mica.export(net(), (X,), tmp_path / "thesis")
    assert not path.exists()


def damaged(path: Path, change: Callable[[Path], None]) -> Path:
    with torch.no_grad():
        mica.export(net(), (X,), path)
    change(path)
    return path


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Any:
    def rewrite(path: Path) -> None:
        tensors = load_file(path / "weights.safetensors")
        change(tensors)
        save_file(tensors, path / "weights.safetensors")

    return rewrite


def halve(file: str) -> Callable[[Path], None]:
    def cut(path: Path) -> None:
        data = (path / file).read_bytes()
        (path / file).write_bytes(data[: len(data) // 2])

    return cut


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (halve("program.mica"), r"program\.mica: \d+:\d+"),
        (halve("weights.safetensors"), r"weights\.safetensors: "),
        (halve("signature.json"), r"signature\.json: "),
        (
            lambda path: (path / "signature.json").write_text("{}"),
            r"signature\.json: wants",
        ),
        (
            weights(lambda tensors: tensors.pop("fc.bias")),
            r'weights\.safetensors: variable "fc\.bias" is missing.*f32\[3\]',
        ),
        (
            weights(lambda tensors: tensors.update(gain=torch.ones(2))),
            r'weights\.safetensors: "gain", f32\[2\], is no variable',
        ),
        (
            weights(lambda tensors: tensors.update({"fc.bias": torch.ones(4)})),
            r'"fc\.bias".*wants f32\[3\], got f32\[4\]',
        ),
        (
            weights(
                lambda tensors: tensors.update(
                    {"fc.bias": torch.ones(3, dtype=torch.float64)}
                )
            ),
            r'"fc\.bias".*wants f32\[3\], got f64\[3\]',
        ),
    ],
)
def test_damaged_folders_are_told_by_file_and_variable(
    tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    path = damaged(tmp_path / "net", change)
    with pytest.raises((ValueError, LookupError), match=message):
        mica.load(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    path = damaged(
        tmp_path / "net", lambda path: (path / "weights.safetensors").unlink()
    )
    with pytest.raises(LookupError, match="weights.safetensors"):
        mica.load(path)
    with pytest.raises(LookupError, match="program.mica"):
        mica.load(tmp_path / "nowhere")


@pytest.mark.skipif(
    not (BIN / "mica_run").exists(), reason="the tools are not built"
)
def test_the_tools_run_an_exported_folder_without_python(
    tmp_path: Path,
) -> None:
    model = net()
    with torch.no_grad():
        mica.export(model, (X,), tmp_path / "net")
        want = model(X * 3)
    np.save(tmp_path / "x.npy", (X * 3).numpy())
    done = tool(
        "mica_run",
        f"--program={tmp_path / 'net'}",
        f"--feed=x={tmp_path / 'x.npy'}",
        f"--out={tmp_path / 'y.safetensors'}",
        f"--out_weights={tmp_path / 'w.safetensors'}",
    )
    assert done.returncode == 0, done.stderr
    [got] = load_file(tmp_path / "y.safetensors").values()
    assert torch.allclose(got, want, atol=1e-6)
    after = load_file(tmp_path / "w.safetensors")
    assert torch.equal(after["calls"], model.calls)
    # The variables of another file, and of one that doesn't fit.
    done = tool(
        "mica_run",
        f"--program={tmp_path / 'net'}",
        f"--weights={tmp_path / 'w.safetensors'}",
        f"--feed=x={tmp_path / 'x.npy'}",
    )
    assert done.returncode == 0, done.stderr
    done = tool(
        "mica_run",
        f"--program={tmp_path / 'net'}",
        f"--weights={tmp_path / 'y.safetensors'}",
        f"--feed=x={tmp_path / 'x.npy'}",
    )
    assert done.returncode == 1
    assert 'y.safetensors: variable "' in done.stderr
    done = tool(
        "mica_bench",
        "--json",
        "--fuse",
        "--repeats=3",
        f"--program={tmp_path / 'net'}",
    )
    assert done.returncode == 0, done.stderr
