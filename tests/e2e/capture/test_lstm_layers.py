"""LSTMs that train: layers of Mica's own, which keep what goes back wants."""

import copy

import pytest
import torch
from torch import nn

import mica


@pytest.fixture(autouse=True)
def _grad():
    mica.reset()  # Forgets gradients of gradients elsewhere.
    with torch.enable_grad():
        yield


def same(wants, gots):
    assert len(wants) == len(gots)
    assert all(map(torch.equal, wants, gots))


def near(wants, gots):
    for want, got in zip(wants, gots, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


LSTMS = {
    "plain": {},
    "bidirectional": {"bidirectional": True, "num_layers": 2},
    "batch first": {"batch_first": True},
}


@pytest.mark.parametrize("name", LSTMS)
@pytest.mark.parametrize("part", ["output", "last", "states"])
def test_lstms_train_by_kernels_of_their_own(name, part):
    def loss(result):
        y, (h, c) = result
        if part == "output":
            return y.square().sum()
        return y[-1].sin().sum() if part == "last" else (h * c).sum()

    torch.manual_seed(0)
    eager = nn.LSTM(5, 17, **LSTMS[name])
    served = copy.deepcopy(eager)
    compiled = mica.compile(served)
    for call in range(4):
        torch.manual_seed(call)
        leaves = [torch.randn(6, 3, 5, requires_grad=True)]
        leaves.append(leaves[0].detach().clone().requires_grad_())
        runs = ((eager, eager), (served, compiled))
        for (model, run), x in zip(runs, leaves, strict=True):
            model.zero_grad()
            loss(run(x)).backward()
        near(
            *(
                [x.grad, *(weight.grad for weight in model.parameters())]
                for (model, _), x in zip(runs, leaves, strict=True)
            )
        )
    explanation = mica.explain(compiled)
    assert explanation.hits == 3, str(explanation)
    (graph,) = explanation.graphs
    assert not graph.opaque
    assert "mica.lstm_layer_backward" in graph.backward_ops


def test_an_lstm_under_eval_goes_back_by_kernels_of_its_own():
    torch.manual_seed(0)
    model = nn.LSTM(5, 7, 2).eval()
    x = torch.randn(6, 3, 5, requires_grad=True)

    def step():
        x.grad = None
        model.zero_grad()
        y, (h, c) = model(x)
        (y.square().mean() + (h * c).sum()).backward()
        return [x.grad, *(weight.grad for weight in model.parameters())]

    want = [grad.clone() for grad in step()]
    compiled = mica.compile(step, fullgraph=True)
    for _ in range(3):
        got = compiled()
    near(want, got)
    explanation = mica.explain(compiled)
    assert explanation.hits > 0, str(explanation)
    assert all(not graph.opaque for graph in explanation.graphs)


def test_a_pass_through_an_lstm_that_ran_eagerly_is_atens():
    model = nn.LSTM(5, 7)
    x = torch.randn(6, 3, 5)
    weights = [weight.detach() for weight in model.all_weights[0]]
    state = torch.zeros(3, 7)
    tail = (2, 7, 1, True)
    y, h, c, workspace = torch.ops.aten.mkldnn_rnn_layer(
        x, *weights, state, state, False, [], *tail, False, False, True
    )

    def back(slopes, workspace):
        return torch.ops.aten.mkldnn_rnn_layer_backward(
            x, *weights, state, state, y, h, c, slopes, None, None, False,
            *tail, True, False, [], False, workspace,
        )  # fmt: skip

    compiled = mica.compile(back)
    for _ in range(2):
        compiled(torch.ones_like(y), workspace)
    slopes = torch.randn_like(y)
    same(list(back(slopes, workspace)), list(compiled(slopes, workspace)))
    (graph,) = mica.explain(compiled).graphs
    assert graph.ops == ["aten.mkldnn_rnn_layer_backward"]


@pytest.mark.once("torch keeps the source of the module")
def test_a_whole_step_of_an_lstm_is_one_graph_for_others_too():
    torch.manual_seed(0)
    model = nn.LSTM(5, 7)
    x = torch.randn(6, 3, 5)

    def step(x):
        y, _ = model(x)
        return torch.autograd.grad(y.square().sum(), list(model.parameters()))

    module = mica.to_fx(step, (x,))
    names = {str(node.target) for node in module.graph.nodes}
    assert "aten.mkldnn_rnn_layer_backward.default" in names
    same(list(module(x)), list(step(x)))
    compiled = mica.compile(step)
    compiled(x)
    near(step(x), compiled(x))
    (graph,) = mica.explain(compiled).graphs
    assert not graph.opaque


def test_an_lstm_without_gradients_has_eagers_bits():
    torch.manual_seed(0)
    model = nn.LSTM(1, 1)

    def last(x):
        with torch.no_grad():
            return model(x)[1][0]

    with torch.enable_grad():
        fast = mica.compile(last, exact=True, fullgraph=True)
        for _ in range(400):
            x = torch.randn(2, 1, 1)
            assert torch.equal(fast(x), last(x))
