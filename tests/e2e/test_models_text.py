"""Text, vision-transformer and recurrent models against float64 eager."""

import pytest
import torch
from e2e.model_checks import check, tensors

import mica
import zoo

_TEXT = [e for e in zoo.ENTRIES if e.family in ("text", "recurrent")]
_SMALL_LENGTHS = (9, 16)


@pytest.mark.parametrize("frozen", [False, True], ids=["live", "frozen"])
@pytest.mark.parametrize("entry", _TEXT, ids=lambda e: e.name)
def test_text_model_is_one_native_graph_a_shape(entry, frozen):
    cases = [
        entry.inputs("small", batch, length)
        for batch in (1, 4)
        for length in _SMALL_LENGTHS
    ]
    check(entry.make("small"), cases, frozen, dynamic=False)


@pytest.mark.parametrize("frozen", [False, True], ids=["live", "frozen"])
@pytest.mark.parametrize("name", ["ViT-B/16", "MLP-Mixer"])
def test_vision_transformer_is_one_native_graph_a_batch(name, frozen):
    pytest.importorskip("timm" if name == "MLP-Mixer" else "torchvision")
    entry = next(e for e in zoo.ENTRIES if e.name == name)
    cases = [entry.inputs("small", batch, 0) for batch in (1, 4)]
    check(entry.make("small"), cases, frozen)


@pytest.mark.parametrize("given_state", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers(
    kind, layers, batch_first, bidirectional, given_state
):
    torch.manual_seed(0)
    model = kind(
        12, 20, layers, batch_first=batch_first, bidirectional=bidirectional
    ).eval()
    cases = []
    for batch, length in ((1, 6), (3, 5)):
        dims = (batch, length, 12) if batch_first else (length, batch, 12)
        args = [torch.randn(dims)]
        if given_state:
            rows = layers * (2 if bidirectional else 1)
            state = torch.randn(rows, batch, 20)
            args.append(
                (state, torch.randn(rows, batch, 20))
                if kind is torch.nn.LSTM
                else state
            )
        cases.append((args, {}))
    compiled = mica.compile(model)
    with torch.no_grad():
        for args, _ in cases:
            compiled(*args)
            for got, want in zip(
                tensors(compiled(*args)), tensors(model(*args)), strict=True
            ):
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    explanation = mica.explain(compiled)
    assert explanation.is_one_graph and explanation.hits == 2, str(explanation)
    assert not any(graph.opaque for graph in explanation.graphs)


class Tagger(torch.nn.Module):
    def __init__(self, kind, bias):
        super().__init__()
        self.embed = torch.nn.Embedding(30, 8)
        self.rnn = kind(8, 16, bias=bias, batch_first=True)
        self.head = torch.nn.Linear(16, 5)

    def forward(self, ids):
        hidden, state = self.rnn(self.embed(ids))
        last = state[0] if isinstance(state, tuple) else state
        return self.head(hidden), self.head(last[-1])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layer_inside_a_model(kind, bias):
    torch.manual_seed(0)
    ids = torch.randint(0, 30, (2, 7))
    check(Tagger(kind, bias).eval(), [((ids,), {})], frozen=True)


def test_only_the_last_state_of_an_lstm_is_read():
    torch.manual_seed(0)
    rnn = torch.nn.LSTM(6, 10).eval()
    compiled = mica.compile(lambda x: rnn(x)[1][0])
    x = torch.randn(9, 2, 6)
    with torch.no_grad():
        compiled(x)
        torch.testing.assert_close(compiled(x), rnn(x)[1][0])
    assert mica.explain(compiled).hits == 1


def test_gates_of_a_gru_are_one_cell_a_step():
    torch.manual_seed(0)
    rnn = torch.nn.GRU(6, 10).eval()
    compiled = mica.compile(rnn)
    x = torch.randn(4, 2, 6)
    with torch.no_grad():
        compiled(x)
        compiled(x)
    ops = mica.explain(compiled).graphs[0].ops
    assert ops.count("mica.gru_cell") == 4
    assert "mica.scatter_view" not in ops


def test_layers_that_share_a_weight_share_its_packed_copy():
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 64).eval()
    model = torch.nn.Sequential(layer, layer, layer)
    compiled = mica.compile(model, frozen=True)
    x = torch.randn(32, 64)
    with torch.no_grad():
        compiled(x)
        torch.testing.assert_close(compiled(x), model(x))
    plan = mica.explain(compiled).graphs[0].plan_text
    assert plan.count("packed0") == 3 and "packed1" not in plan


def test_long_sums_are_as_exact_as_eagers():
    torch.manual_seed(0)
    model = torch.nn.Linear(4096, 32).eval()
    check(model, [((torch.randn(20, 4096),), {})], frozen=True)


def test_attention_with_a_padding_mask():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 6, 16)
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[1, 4:] = True
    compiled = mica.compile(lambda x, m: layer(x, x, x, key_padding_mask=m))
    with torch.no_grad():
        compiled(x, mask)
        got, weights = compiled(x, mask)
        want, want_weights = layer(x, x, x, key_padding_mask=mask)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(weights, want_weights, rtol=1e-5, atol=1e-6)
    explanation = mica.explain(compiled)
    assert explanation.hits == 1
    assert not explanation.graphs[0].opaque
