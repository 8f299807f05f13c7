"""Programs under torch.use_deterministic_algorithms()."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from e2e.capture.two_worlds import check_training, with_grad
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


@pytest.fixture(autouse=True)
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class Net(nn.Module):
    """Sums gradients by index, draws, and has a convolution and norms."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.conv = nn.Conv1d(6, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(8, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.embed(words).transpose(1, 2))
        x = F.max_pool1d(F.relu(self.norm(x)), 2)
        x = x.index_add(2, torch.tensor([0, 0, 1]), x[:, :, :3])
        return self.head(self.drop(x).mean(2))


@pytest.mark.parametrize("exact", [False, True])
def test_training_steps(exact: bool):
    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(7, (4, 8)), torch.randint(3, (4,))

    assert check_training(Net, draw, exact=exact) >= 5


TYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.complex64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]


@pytest.mark.parametrize("dtype", TYPES)
def test_new_memory_is_filled(dtype: torch.dtype):
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.empty(2, 3, dtype=dtype)
        y[1] = x
        strided = torch.empty_strided((2, 3), (1, 2), dtype=dtype)
        like = torch.empty_like(x, dtype=dtype)
        return y, strided, like, y.new_empty(4), torch.empty(0, dtype=dtype)

    compiled = mica.compile(program)
    for i in range(4):
        x = torch.full((3,), float(i % 2))
        got, want = compiled(x), program(x)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)
            assert a._version == b._version and a.stride() == b.stride()
    assert mica.explain(compiled).hits == 3


def test_what_is_overwritten():
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x).copy_(x) + torch.empty(3).fill_(2.0)

    compiled = mica.compile(program)
    for _ in range(4):
        assert compiled(torch.ones(3)).tolist() == [3.0] * 3
    assert mica.explain(compiled).hits == 3


def test_without_filling():
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        compiled = mica.compile(lambda x: x + torch.empty_like(x).zero_())
        for _ in range(4):
            assert compiled(torch.ones(3)).tolist() == [1.0] * 3
        assert mica.explain(compiled).hits == 3
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


def test_what_has_no_deterministic_form_raises_each_time():
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.max_unpool2d(x, i, 2)

    x, i = F.max_pool2d(torch.randn(1, 1, 4, 4), 2, return_indices=True)
    compiled = mica.compile(program)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="deterministic"):
            compiled(x, i)
    torch.use_deterministic_algorithms(False)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, i), program(x, i))
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match="deterministic"):
        compiled(x, i)


def test_where_operators_warn_they_run_eagerly():
    torch.use_deterministic_algorithms(True, warn_only=True)
    compiled = mica.compile(lambda x: x + 1)
    with pytest.warns(mica.MicaWarning, match="only warns"):
        for _ in range(30):
            compiled(torch.ones(2))
    assert mica.explain(compiled).hits == 0
