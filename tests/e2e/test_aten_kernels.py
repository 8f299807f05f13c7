"""What no fast kernel takes runs ATen's kernel in its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mica

X = torch.randn(6, 8, 10)

Function = Callable[[Tensor], object]

# Ops, types and layouts that Mica has an op for.
PROGRAMS: dict[str, Function] = {
    "hardshrink": F.hardshrink,
    "leaky_relu": F.leaky_relu,
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "mse_loss none": lambda x: F.mse_loss(x, x * 2, reduction="none"),
    "vector_norm": torch.linalg.vector_norm,
    "group_norm": lambda x: F.group_norm(x, 4),
    "roll": lambda x: x.roll(3, 1),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(3, 1),
    "std": lambda x: x.std(1),
    "erfinv": lambda x: x.tanh().erfinv(),
    "arange": lambda x: x + torch.arange(10, dtype=x.dtype),
    "a number for a tensor": lambda x: torch.where(x > 0, x, 2),
    "strided": lambda x: F.hardshrink(x.transpose(0, 2)[::2]),
    "linear": lambda x: F.linear(x, x[0]),
    "attention": lambda x: F.scaled_dot_product_attention(*(x[None],) * 3),
    "median": lambda x: x.median(1),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.max(2),
    "nothing": lambda x: F.hardshrink(x[:0]),
}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def _agree(got: object, want: object) -> None:
    rtol = 2e-2 if torch.finfo(_dtype(want)).bits == 16 else 1e-5
    torch.testing.assert_close(got, want, rtol=rtol, atol=rtol)


def _dtype(value: object) -> torch.dtype:
    first = value[0] if isinstance(value, tuple) else value
    assert isinstance(first, Tensor)
    return first.dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_runs_the_reference(name: str, dtype: torch.dtype) -> None:
    program = PROGRAMS[name]
    compiled = mica.compile(program, fullgraph=True)
    with torch.no_grad():
        for scale in (1.0, 2.0, 0.5):
            x = (X * scale).to(dtype)
            _agree(compiled(x), program(x))
    explained = mica.explain(compiled)
    assert explained.hits == 2
    (graph,) = explained.graphs
    assert sum(graph.kernels.values()) > 0
    assert "reference" not in graph.kernels, graph.plan_text


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "linear": (lambda: nn.Linear(10, 6), (X,)),
    "gelu": (lambda: nn.Sequential(nn.Linear(10, 6), nn.GELU()), (X,)),
    "gru": (lambda: nn.GRU(10, 6, bidirectional=True), (X,)),
    "lstm": (lambda: nn.LSTM(10, 6, batch_first=True), (X,)),
    "encoder": (lambda: nn.TransformerEncoderLayer(10, 2, 8), (X,)),
    "decoder": (lambda: nn.TransformerDecoderLayer(10, 2, 8), (X, X)),
    "attention": (lambda: nn.MultiheadAttention(10, 2), (X, X, X)),
    "add, norm": (lambda: nn.LayerNorm(10), (X,)),
    "pool": (lambda: nn.MaxPool1d(2), (X,)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_no_layer_is_fused_for_the_reference(
    name: str, dtype: torch.dtype
) -> None:
    make, inputs = LAYERS[name]
    torch.manual_seed(0)
    layer = make().eval().to(dtype)
    compiled = mica.compile(layer, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            xs = [x.to(dtype) for x in inputs]
            _agree(compiled(*xs), layer(*xs))
    (graph,) = mica.explain(compiled).graphs
    assert graph.hits == 2
    assert "reference" not in graph.kernels, graph.plan_text


def test_one_number_of_a_tensor_is_no_references() -> None:
    compiled = mica.compile(lambda i: F.one_hot(i, 7), fullgraph=True)
    for _ in range(3):
        i = torch.randint(7, (5,))
        assert torch.equal(compiled(i), F.one_hot(i, 7))
    assert "reference" not in mica.explain(compiled).graphs[0].kernels


def test_explain_counts_steps_by_who_runs_them() -> None:
    compiled = mica.compile(lambda x: F.softshrink(x.exp()))
    for _ in range(2):
        compiled(X)
    explained = mica.explain(compiled)
    assert explained.graphs[0].kernels == {"aten": 1, "cpu": 1}
    assert "kernels: aten 1, cpu 1" in explained.details("ops")


# Where ATen has its results, among what else it allocates.
PLACED: dict[str, Function] = {
    "one": torch.frac,
    "two": lambda x: x.sort(1),
    "two of one size": lambda x: torch.native_group_norm(
        x, None, None, 6, 8, 10, 4, 1e-5
    )[1:],
    "swapped": lambda x: torch.native_group_norm(
        x, None, None, 6, 8, 10, 4, 1e-5
    )[::-1],
    "after a copy of its operand": lambda x: F.pixel_shuffle(
        x.transpose(0, 2)[:, :, None], 2
    ),
    "not the first": lambda x: x.repeat(2, 2, 1).frac(),
    "behind what it makes on the way": lambda x: F.mse_loss(x, x * 2),
    "in place": lambda x: torch.zeros_like(x).masked_scatter_(x > 0, x),
    "nothing": lambda x: x[:0].frac(),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PLACED)
def test_aten_writes_results_where_they_belong(
    name: str, dtype: torch.dtype
) -> None:
    program = PLACED[name]
    compiled = mica.compile(program, fullgraph=True)
    for scale in range(1, 5):
        x = (X * scale).to(dtype)
        _agree(compiled(x), program(x))
    assert mica.explain(compiled).hits == 3


def _copies(call: Callable[[], object]) -> int:
    with torch.profiler.profile() as profile:
        call()
    return sum(event.name == "aten::copy_" for event in profile.events())


@pytest.mark.parametrize("name", ["one", "two", "two of one size"])
def test_aten_results_are_not_copied(name: str) -> None:
    program = PLACED[name]
    compiled = mica.compile(program, fullgraph=True)
    x = X.to(torch.bfloat16)
    for _ in range(3):
        compiled(x)
    assert _copies(lambda: compiled(x)) == _copies(lambda: program(x))
    assert mica.explain(compiled).hits == 3


# Of an operand that dies with the step: ATen's form in place writes to it.
INPLACE: dict[str, Function] = {
    "index_add": lambda x: torch.zeros_like(x).index_add(0, torch.arange(6), x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(
        1, torch.zeros(6, 8, 10, dtype=torch.int64), x
    ),
    "chain": lambda x: x.frac().i0().sinc(),
    "read by another argument": lambda x: (y := x.frac()).masked_scatter(
        y > 0.1, y
    ),
    "read again": lambda x: (y := x.frac()).i0() + y,
    "an input": lambda x: x.i0(),
    "of another type": lambda x: x.frac().gt(0.1).logical_xor(x > 0),
    "transposed": lambda x: x.frac().transpose(0, 2).i0(),
    "a part": lambda x: x.frac()[1:3].i0(),
    "a view": lambda x: (x.frac()[:, :6, 0] + 1).t().i0(),
    "a copy of a view": lambda x: torch.t_copy(x.frac()[:, :6, 0] + 1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", INPLACE)
def test_aten_may_write_over_what_nobody_reads_again(
    name: str, dtype: torch.dtype
) -> None:
    program = INPLACE[name]
    compiled = mica.compile(program, fullgraph=True)
    for scale in range(1, 5):
        x = (X * scale).to(dtype)
        before = x.clone()
        torch.testing.assert_close(compiled(x), program(x), equal_nan=True)
        assert torch.equal(x, before)
    assert mica.explain(compiled).hits == 3


@pytest.mark.parametrize("name", ["index_add", "scatter_add", "chain"])
def test_what_dies_in_an_output_lies_there(name: str) -> None:
    program = INPLACE[name]
    compiled = mica.compile(program, fullgraph=True)
    for _ in range(3):
        compiled(X)
    assert _copies(lambda: compiled(X)) == 0
    (graph,) = mica.explain(compiled).graphs
    last = graph.plan_text.splitlines()[-1]
    assert last.endswith(", output0)") and last.count("output0") == 2


def test_an_operator_of_the_users_may_keep_its_result() -> None:
    kept: list[Tensor] = []

    @torch.library.custom_op("mica_test::keeps", mutates_args=())
    def keeps(x: Tensor) -> Tensor:
        result = x.sin()
        kept.append(result)
        return result

    @keeps.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    compiled = mica.compile(lambda x: keeps(x) + 1)
    for scale in range(1, 6):
        x = X * scale
        torch.testing.assert_close(compiled(x), x.sin() + 1)
    for scale, result in enumerate(kept, 1):
        torch.testing.assert_close(result, (X * scale).sin())
