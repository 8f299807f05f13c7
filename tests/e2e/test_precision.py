"""Products in few bits: what has them, their numbers, and what is told."""

import pytest
import torch
from torch import nn

import mica

PRECISIONS = {"int8": 0.999, "int8-weights": 0.9999, "int4-weights": 0.99}


class Block(nn.Module):
    """Two linears with a residual, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(96, 192)
        self.down = nn.Linear(192, 96, bias=False)
        self.norm = nn.LayerNorm(96)
        self.head = nn.Linear(96, 70)
        self.few = nn.Linear(96, 8)

    def forward(self, x):
        y = self.norm(x + self.down(nn.functional.gelu(self.up(x))))
        return self.head(y), self.few(y)


def make(seed=0):
    torch.manual_seed(seed)
    return Block().eval()


def cosine(a, b):
    a, b = a.flatten().double(), b.flatten().double()
    return float(a @ b / a.norm() / b.norm())


def graph_of(compiled):
    (graph,) = mica.explain(compiled).graphs
    return graph


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_have_it_and_their_error_is_told(precision, rows):
    model = make()
    fast = mica.compile(model, frozen=True, precision=precision)
    x = torch.randn(2, rows, 96)
    with torch.no_grad():
        for _ in range(3):
            got = fast(x)
        want = model(x)
    for one, other in zip(got, want, strict=True):
        assert cosine(one, other) > PRECISIONS[precision]
        assert not torch.equal(one, other)
    graph = graph_of(fast)
    error = graph.precision_error
    assert [p.precision for p in error.products] == [
        precision,
        precision,
        "int8-weights",
    ]
    assert [p.shape for p in error.products] == [(192, 96), (96, 192), (70, 96)]
    assert all(0 < p.relative < 0.15 for p in error.products)
    assert all(p.cosine > 0.99 for p in error.products)
    worst = max(
        float((a - b).norm() / b.norm()) for a, b in zip(got, want, strict=True)
    )
    assert error.relative == pytest.approx(worst, rel=1e-3)
    assert "mica.linear" in graph.ops  # The narrow one.
    assert not graph.inaccuracy
    assert precision in str(mica.explain(fast))
    assert not any("reference" in kernel for kernel in graph.kernels)


def test_one_model_in_several_precisions():
    model = make()
    x = torch.randn(5, 96)
    kept, packed = [], set()
    for precision in (None, *PRECISIONS, None):
        fast = mica.compile(model, frozen=True, precision=precision)
        with torch.no_grad():
            for _ in range(8):
                fast(x)
        kept.append(fast)  # What Plans share lives as long as they do.
        graph = graph_of(fast)
        assert ("mica.int8_linear" in graph.ops) == bool(precision)
        assert ("mica.int4_linear" in graph.ops) == (
            precision == "int4-weights"
        )
        packed.add(graph.packed_bytes)
    assert len(packed) >= 3


def test_written_weights_are_quantised_anew():
    model = make()
    fast = mica.compile(model, frozen=True, precision="int8")
    x = torch.randn(4, 96)
    with torch.no_grad():
        for _ in range(3):
            fast(x)
        model.up.weight.mul_(-1)
        for one, other in zip(fast(x), model(x), strict=True):
            assert cosine(one, other) > 0.999


def test_other_sizes_share_what_is_packed():
    model = make()
    fast = mica.compile(model, frozen=True, precision="int8")
    with torch.no_grad():
        for rows in (5, 7, 12, 9, 30):
            x = torch.randn(rows, 96)
            for one, other in zip(fast(x), model(x), strict=True):
                assert cosine(one, other) > 0.999


def test_conv1d_of_transformers_has_it():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    layer = transformers.pytorch_utils.Conv1D(80, 96).eval()
    tail = nn.Linear(80, 64).eval()

    def run(x):
        return tail(layer(x))

    for precision, least in PRECISIONS.items():
        fast = mica.compile(run, frozen=True, precision=precision)
        x = torch.randn(1, 6, 96)
        with torch.no_grad():
            for _ in range(3):
                got = fast(x)
            assert cosine(got, run(x)) > least
        products = graph_of(fast).precision_error.products
        assert [p.precision for p in products] == [precision, "int8-weights"]


def test_what_would_train_runs_eagerly_and_says_so():
    model = make()
    fast = mica.compile(model, frozen=True, precision="int8")
    x = torch.randn(4, 96)
    for _ in range(3):
        for one, other in zip(fast(x), model(x), strict=True):
            assert torch.equal(one, other)
    explanation = mica.explain(fast)
    assert not explanation.graphs
    assert "is differentiated" in str(explanation)
    assert "no_grad" in str(explanation)


def test_a_result_that_has_nothing_to_do_with_it_is_not_served():
    torch.manual_seed(0)
    first = nn.Linear(256, 256, bias=False).eval()
    with torch.no_grad():
        # One weight of each row is all that its scale has room for.
        first.weight.mul_(1e-3)
        first.weight[:, 0] = 1e3
    x = torch.randn(4, 256)
    x[:, 0] = 0

    def run(x):
        return first(first(x) * 1e3) * 1.0

    fast = mica.compile(run, frozen=True, precision="int8-weights")
    with torch.no_grad():
        for _ in range(3):
            got = fast(x)
        torch.testing.assert_close(got, run(x))
    assert "cosine" in graph_of(fast).inaccuracy


@pytest.mark.filterwarnings("ignore")
def test_models_that_torch_ao_quantised_stay_eagers():
    torch.manual_seed(0)
    layers = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)
    model = torch.ao.quantization.quantize_dynamic(
        nn.Sequential(*layers).eval(), {nn.Linear}
    )
    fast = mica.compile(model)
    x = torch.randn(4, 64)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(fast(x), model(x))
    assert "linear_dynamic" in str(mica.explain(fast))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"precision": "int8"}, "frozen"),
        ({"precision": "int7", "frozen": True}, "int8-weights"),
        ({"precision": "", "frozen": True}, "name"),
        ({"precision": "int8", "frozen": True, "exact": True}, "exact"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        mica.compile(make(), **arguments)


def test_without_a_check_nothing_is_known_of_the_error():
    model = make()
    fast = mica.compile(model, frozen=True, precision="int8", exact=False)
    x = torch.randn(4, 96)
    with torch.no_grad():
        for _ in range(3):
            fast(x)
    assert graph_of(fast).precision_error is None
    assert "isn't measured" in str(mica.explain(fast))
