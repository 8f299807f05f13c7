"""Programs exported with sizes left open: right at others, or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import mica

BIN = Path(
    os.environ.get(
        "MICA_BIN", Path(__file__).resolve().parents[2] / "build" / "bin"
    )
)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def rows(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(n, 8),)


def texts(n: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, 50, (n, length)),)


def images(n: int, side: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(n, 3, side, side),)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.eval()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.layer(x)[:, -1]


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(50, 8), nn.LSTM(8, 16)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        return self.lstm(self.words(ids))[0][-1], ids.shape[0] * 2


def small_resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, 2, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ).eval()


BATCH = {0: "batch"}
BOTH = {0: "batch", 1: "length"}
SQUARE = {0: "batch", 2: "side", 3: "side"}
Case = tuple[Callable[..., Any], Callable[..., Any], dict[int, str], list[Any]]
CASES: dict[str, Case] = {
    "mlp": (
        nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)),
        rows,
        BATCH,
        [(4,), (7,), (100,), (2,)],
    ),
    "words": (Words(), texts, BOTH, [(4, 6), (2, 2), (3, 40), (9, 7)]),
    "lstm": (Last(), texts, {0: "t", 1: "b"}, [(4, 6), (9, 2), (30, 3)]),
    "images": (small_resnet(), images, SQUARE, [(2, 48), (3, 64), (2, 97)]),
    "number": (lambda x: x.sum(0) / x.shape[0], rows, BATCH, [(4,), (9,)]),
    "integers": (
        lambda x: x.long() * x.shape[0],
        rows,
        BATCH,
        [(4,), (9,)],
    ),
    "half": (lambda x: x[: x.shape[0] // 2], rows, BATCH, [(8,), (9,), (30,)]),
    "view": (
        lambda x: (x - x.mean(0)).T.reshape(-1),
        rows,
        BATCH,
        [(4,), (9,)],
    ),
    "result": (
        lambda x: {"rows": x.shape[0], "both": (x[1:], x.numel() / 2)},
        rows,
        BATCH,
        [(4,), (9,)],
    ),
}


def shapes_of(fn: Any, dims: dict[int, str]) -> Any:
    if isinstance(fn, nn.Module):
        fn = fn.forward
    return {fn.__code__.co_varnames[1 if hasattr(fn, "__self__") else 0]: dims}


@pytest.mark.parametrize("name", CASES)
def test_results_are_eagers_at_all_sizes(name, tmp_path):
    fn, make, dims, sizes = CASES[name]
    mica.export(
        fn, make(*sizes[0]), tmp_path / "p", dynamic_shapes=shapes_of(fn, dims)
    )
    loaded = mica.load(tmp_path / "p")
    for size in sizes:
        args = make(*size)
        torch.testing.assert_close(loaded(*args), fn(*args))
    text = (tmp_path / "p" / "program.mica").read_text()
    assert all(dim in text.split("{")[0] for dim in dims.values())


def refused(fn: Any, size: int = 8, dims: Any = None, **more: Any) -> str:
    with pytest.raises(NotImplementedError) as error:
        mica.export(
            fn,
            rows(size),
            "never",
            dynamic_shapes=({0: "n"} if dims is None else dims,),
            **more,
        )
    assert not Path("never").exists()
    return str(error.value)


def test_what_goes_by_sizes_in_other_ways_is_refused():
    def rounds(x):
        for row in x:
            x = x + row
        return x

    for fn, why in {
        rounds: "loops",
        (lambda x: x[:: x.shape[0]]): "aten.slice",
        (lambda x: x * (x.shape[0] % 3)): "mica.int_mod",
        (lambda x: x * abs(x.shape[0] - 99)): "mica.int_abs",
        (lambda x: x.diagonal()): "aten.diagonal",
        (lambda x: x[x > 0]): "n can't vary",
    }.items():
        assert why in refused(fn), fn


@pytest.mark.parametrize(
    "fn, good, bad",
    [
        (lambda x: x * 2 if x.shape[0] > 5 else x, [6, 40], [5, 2]),
        (lambda x: x[:, :5] if x.shape[0] // 4 > 1 else x, [9, 40], [7, 3]),
        (lambda x: x[-4], [4, 40], [3, 2]),
        (lambda x: x[3:7], [7, 50], [6, 4]),
        (lambda x: x[20:], [8, 9, 4], [25, 30]),
        (lambda x: x[: x.shape[0] + 3] * 2, [2, 30], [1]),
        # A quotient that is the same at all sizes near the example's.
        (lambda x: x * (x.shape[0] // 1000), [8, 900], [1000, 2500]),
        (lambda x: x.view(2, -1), [8, 12], [1]),
    ],
)
def test_it_holds_where_the_program_does_the_same(fn, good, bad, tmp_path):
    mica.export(fn, rows(8), tmp_path / "p", dynamic_shapes=({0: "n"},))
    loaded = mica.load(tmp_path / "p")
    for size in good:
        (x,) = rows(size)
        torch.testing.assert_close(loaded(x), fn(x))
    for size in bad:
        with pytest.raises(ValueError, match="wants"):
            loaded(*rows(size))


def test_a_dim_has_a_range(tmp_path):
    from torch.export import Dim

    n = Dim("n", min=4, max=16)
    mica.export(
        lambda x: x + 1, rows(8), tmp_path / "p", dynamic_shapes={"x": [n]}
    )
    loaded = mica.load(tmp_path / "p")
    for size in (4, 16):
        (x,) = rows(size)
        assert torch.equal(loaded(x), x + 1)
    for size in (3, 17):
        with pytest.raises(ValueError, match="wants"):
            loaded(*rows(size))


def test_dims_of_one_name_are_equal(tmp_path):
    def both(x, y):
        return x @ y

    shapes = {"x": {0: "n", 1: "k"}, "y": {0: "k"}}
    mica.export(
        both,
        (torch.randn(4, 6), torch.randn(6, 3)),
        tmp_path / "p",
        dynamic_shapes=shapes,
    )
    loaded = mica.load(tmp_path / "p")
    x, y = torch.randn(9, 5), torch.randn(5, 3)
    torch.testing.assert_close(loaded(x, y), x @ y)
    with pytest.raises(ValueError, match="k=5"):
        loaded(x, torch.randn(6, 3))


def test_bad_shapes_are_named():
    def fails(error: type[Exception], what: str, shapes: Any, x: Any) -> None:
        with pytest.raises(error, match=what):
            mica.export(lambda x: x + 1, (x,), "never", dynamic_shapes=shapes)

    x = torch.randn(4, 1)
    fails(TypeError, "'y', which is no argument", {"y": {0: "n"}}, x)
    fails(TypeError, "no dim 2 of", {"x": {2: "n"}}, x)
    fails(TypeError, "wants a name", {"x": {0: 7}}, x)
    fails(TypeError, "wants a name", {"x": {0: "a b"}}, x)
    fails(TypeError, "wants a dict of dims", {"x": "n"}, x)
    fails(TypeError, "container of such, got float", {"x": {0: "n"}}, 1.0)
    fails(TypeError, "2 entries for 1", [None, None], x)
    fails(ValueError, "n is 4, but x has 1", {"x": {0: "n", 1: "n"}}, x)
    fails(ValueError, "n is 1 in x: wants an example of 2", {"x": {1: "n"}}, x)


def test_state_is_as_reset_leaves_it(tmp_path):
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x.sum(0))
            return x - self.seen

    counts = Counts()
    mica.export(
        counts,
        rows(4),
        tmp_path / "p",
        dynamic_shapes={"x": {0: "n"}},
        reset=lambda: counts.seen.fill_(3),
    )
    assert torch.equal(counts.seen, torch.full((8,), 3.0))
    loaded, twin = mica.load(tmp_path / "p"), Counts()
    twin.seen.fill_(3)
    for size in (5, 2, 9):
        (x,) = rows(size)
        torch.testing.assert_close(loaded(x), twin(x))


@pytest.mark.skipif(
    not (BIN / "mica_run").exists(), reason="the tools are not built"
)
def test_mica_run_takes_any_size(tmp_path):
    net = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
    mica.export(
        net, rows(4), tmp_path / "p", dynamic_shapes={"input": {0: "n"}}
    )
    for size in (3, 11):
        (x,) = rows(size)
        np.save(tmp_path / "x.npy", x.numpy())
        made = subprocess.run(
            [
                str(BIN / "mica_run"),
                f"--program={tmp_path / 'p'}",
                f"--feed=input={tmp_path / 'x.npy'}",
                f"--out={tmp_path / 'y.safetensors'}",
            ],
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        (y,) = load_file(tmp_path / "y.safetensors").values()
        torch.testing.assert_close(y, net(x))


def test_random_programs_are_right_or_refused():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [
            sys.executable,
            str(root / "tools" / "export_fuzz.py"),
            "--programs=50",
            "--seed=11",
            "--json",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "python")},
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["differences"] == 0, done.stdout
    assert told["exported"] >= 8 and told["served"] >= 50, done.stdout
