"""Convolutional nets: numbers, layouts, what is folded and kept up to date."""

import numpy as np
import pytest
import torch
from e2e.model_checks import check, error, in_double
from e2e.test_export import tool
from safetensors.torch import load_file
from torch import nn

import mica
import zoo
from vision_operators import define_vision_operators

_NETS = [
    entry
    for entry in zoo.ENTRIES
    if entry.family == "vision" and entry.name not in ("ViT-B/16", "MLP-Mixer")
]


def make(entry):
    define_vision_operators()
    pytest.importorskip("torchvision")
    if entry.name == "ConvNeXt-tiny":
        pytest.importorskip("timm")
    return entry.make("small")


def plan_steps(graph):
    """The words for the ops that are launched at each run."""
    lines = graph.plan_text.splitlines()[1:]
    return [line.split()[1] for line in lines if "fold:" not in line]


@pytest.mark.parametrize("entry", _NETS, ids=lambda e: e.name)
def test_net_is_one_native_graph_a_batch(entry):
    cases = [entry.inputs("small", batch, 0) for batch in (1, 4)]
    explanation = check(make(entry), cases, frozen=True)
    for graph in explanation.graphs:
        first = graph.plan_text.splitlines()[0].split()
        sizes = dict(pair.split("=") for pair in first if "=" in pair)
        assert int(sizes["arena_bytes"]) <= 1.03 * int(sizes["live_set_bytes"])
        steps = plan_steps(graph)
        assert not any("batch_norm" in step for step in steps)
        assert "aten.relu" not in steps and "aten.silu" not in steps


@pytest.mark.parametrize("name", ["ResNet-18", "ConvNeXt-tiny"])
def test_exported_net_runs_without_python(name, tmp_path):
    entry = next(e for e in _NETS if e.name == name)
    model = make(entry)
    (x,), _ = entry.inputs("small", 2, 0)
    np.save(tmp_path / "x.npy", x.numpy())
    with torch.no_grad():
        mica.export(model, (x,), tmp_path / "net")
        exact = in_double(model, (x,), {})
        allowed = 2 * error(model(x), exact)
    done = tool(
        "mica_run",
        f"--program={tmp_path / 'net'}",
        f"--feed=x={tmp_path / 'x.npy'}",
        f"--out={tmp_path / 'y.safetensors'}",
    )
    assert done.returncode == 0, done.stderr
    [got] = load_file(tmp_path / "y.safetensors").values()
    assert error(got, exact) <= allowed


class Net(nn.Module):
    """All that folds: norms before and behind, a sum, activations."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.stem_norm = nn.BatchNorm2d(8)
        self.body = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.body_norm = nn.BatchNorm2d(8)
        self.last_norm = nn.BatchNorm2d(8)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = torch.relu(self.stem_norm(self.stem(x)))
        x = torch.relu(self.body_norm(self.body(x)) + x)
        return torch.relu(self.last_norm(x)).mean((2, 3))


def copy_into(net):
    with torch.no_grad():
        net.body.weight.copy_(torch.randn(8, 8, 3, 3))


def copy_statistics(net):
    net.stem_norm.running_var.copy_(torch.full((8,), 3.0))


def optimizer_step(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    with torch.enable_grad():
        net(torch.randn(2, 3, 6, 6)).square().sum().backward()
    optimizer.step()


def fused_optimizer_step(net):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.5, fused=True)
    with torch.enable_grad():
        net(torch.randn(2, 3, 6, 6)).square().sum().backward()
    optimizer.step()


def assign_data(net):
    net.last_norm.weight.data = torch.full((8,), 2.0)


def replace_parameter(net):
    net.stem.bias = nn.Parameter(torch.ones(8))


def load_state(net):
    net.load_state_dict({k: v * 1.5 for k, v in net.state_dict().items()})


def assign_state(net):
    state = {k: v * 1.5 for k, v in net.state_dict().items()}
    net.load_state_dict(state, assign=True)


def train_on_a_batch(net):
    net.train()
    net(torch.randn(4, 3, 6, 6))
    net.eval()


def write_in_inference_mode(net):
    with torch.inference_mode():
        net.stem.weight.mul_(2)


def write_through_a_view(net):
    with torch.no_grad():
        net.stem.weight[0].zero_()


@pytest.mark.parametrize(
    "change",
    [
        copy_into,
        copy_statistics,
        optimizer_step,
        fused_optimizer_step,
        assign_data,
        replace_parameter,
        load_state,
        assign_state,
        train_on_a_batch,
        write_in_inference_mode,
        write_through_a_view,
    ],
    ids=lambda change: change.__name__,
)
def test_what_is_folded_is_never_stale(change):
    net = Net().eval()
    compiled = mica.compile(net, frozen=True)
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        before = compiled(x)
        torch.testing.assert_close(compiled(x), before)
        change(net)
        want = net(x)
        assert not torch.allclose(want, before, rtol=1e-3)
        torch.testing.assert_close(compiled(x), want)
        torch.testing.assert_close(compiled(x), want)
    graph = mica.explain(compiled).graphs[0]
    assert "fold: mica.fold_batch_norm" in graph.plan_text
    assert plan_steps(graph).count("mica.convolution") == 2


def test_statistics_of_the_batch_are_not_folded():
    net = Net()  # In training mode.
    twin = Net()
    compiled = mica.compile(net, frozen=True)
    for seed in range(4):
        x = torch.randn(2, 3, 6, 6, generator=torch.manual_seed(seed))
        with torch.no_grad():
            torch.testing.assert_close(
                compiled(x), twin(x), rtol=1e-4, atol=1e-5
            )
    for (name, got), want in zip(
        net.state_dict().items(), twin.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, msg=name)


class ReadTwice(Net):
    def forward(self, x):
        y = self.stem(x)
        z = self.stem_norm(y)
        return y + torch.relu(z), z.flip(3), torch.relu(z)


def test_what_is_read_elsewhere_stays():
    x = torch.randn(2, 3, 6, 6)
    check(ReadTwice().eval(), [((x,), {})], frozen=True)


def test_images_that_come_channels_last():
    net = Net().eval()
    x = torch.randn(2, 3, 6, 6).contiguous(memory_format=torch.channels_last)
    check(net, [((x,), {})], frozen=True)
    compiled = mica.compile(nn.Sequential(net.stem, nn.ReLU()), frozen=True)
    with torch.no_grad():
        compiled(x)
        assert compiled(x).stride() == net.stem(x).stride()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_infinities_reach_only_the_windows_that_see_them(threads, monkeypatch):
    monkeypatch.setenv("MICA_NUM_THREADS", threads)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
    ).eval()
    compiled = mica.compile(net, frozen=True)
    x = torch.randn(2, 3, 15, 13)
    with torch.no_grad():
        compiled(x)
        for value in (float("inf"), float("nan"), 3e38, 1.0):
            x[0, 1, 7, 6] = x[1, 0, 0, 12] = value
            torch.testing.assert_close(
                compiled(x),
                net(x),
                rtol=1e-4,
                atol=1e-6 * value if value == 3e38 else 1e-5,
                equal_nan=True,
            )
    [graph] = mica.explain(compiled).graphs
    assert graph.plan_text.count("cpu.winograd") == 1
