"""mica.compile(…, backend=): other compilers between Mica's guards."""

import copy

import pytest
import torch
from torch import nn

import mica


class Counting:
    """A backend that runs the graph as it is."""

    def __init__(self):
        self.graphs = []
        self.calls = 0

    def __call__(self, module, example_inputs):
        self.graphs.append((module, example_inputs))

        def run(*inputs):
            self.calls += 1
            return module(*inputs)

        return run


def test_a_backend_gets_graph_and_example_inputs():
    backend = Counting()
    net = nn.Linear(3, 2)
    fn = mica.compile(net, backend=backend)
    x = torch.randn(4, 3)
    with torch.no_grad():
        want = net(x)
        for _ in range(3):
            assert torch.equal(fn(x), want)
    ((module, examples),) = backend.graphs
    assert backend.calls == 2
    assert isinstance(module, torch.fx.GraphModule)
    assert dict(module.named_parameters())["weight"] is net.weight
    assert [e.shape for e in examples] == [x.shape]
    assert mica.explain(fn).hits == 2


def test_guards_are_micas():
    backend = Counting()

    class Net(nn.Module):
        scale = 2.0

        def forward(self, x, flag=False):
            return {"y": x * self.scale, "x": x, "flag": flag}

    net = Net()
    fn = mica.compile(net, backend=backend)
    for x in (torch.ones(2), torch.ones(3)):
        for flag in (False, True):
            for _ in range(2):
                result = fn(x, flag=flag)
                assert result["x"] is x and result["flag"] is flag
                assert torch.equal(result["y"], x * 2)
    assert len(backend.graphs) == 4 and backend.calls == 4
    net.scale = 3.0
    assert fn(torch.ones(2))["y"].tolist() == [3.0, 3.0]


def test_effects_are_micas():
    backend = Counting()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x):
            self.total += x
            x.mul_(2)
            self.last = x + 1
            return self.last, x[1:], self.total

    net = Net()
    other = copy.deepcopy(net)
    fn = mica.compile(net, backend=backend)
    a, b = torch.ones(2), torch.ones(2)
    for _ in range(4):
        got, want = fn(a), other(b)
        for one, two in zip(got, want, strict=True):
            assert torch.equal(one, two)
        assert got[0] is net.last and got[2] is net.total
        assert got[1].data_ptr() == a[1:].data_ptr()
        assert torch.equal(a, b) and a._version == b._version
        assert torch.equal(net.total, other.total)
    assert backend.calls == 3


def test_numbers_read_are_checked_before_anything_is_written():
    backend = Counting()

    def program(x):
        x.add_(1)
        if x.sum() > 0:
            return x * 2
        return x * 3

    fn = mica.compile(program, backend=backend)
    a, b = torch.zeros(2), torch.zeros(2)
    for _ in range(2):
        assert torch.equal(fn(a), program(b))
    a, b = torch.full((2,), -5.0), torch.full((2,), -5.0)
    for _ in range(2):
        assert torch.equal(fn(a), program(b))
        assert torch.equal(a, b)
    assert len(backend.graphs) == 2


def test_random_numbers_of_a_discarded_run_are_drawn_once():
    def program(x):
        noise = torch.rand(3)
        return noise * 2 if x.sum() > 0 else noise * 3

    fn = mica.compile(program, backend=Counting())
    torch.manual_seed(0)
    got = [fn(torch.full((1,), v)) for v in (1.0, 1.0, -1.0, 1.0)]
    torch.manual_seed(0)
    want = [program(torch.full((1,), v)) for v in (1.0, 1.0, -1.0, 1.0)]
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training_steps(kind):
    backend = Counting()

    def world():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
        optimizer = kind(net.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        return net, step, schedule

    net, step, schedule = world()
    other, other_step, other_schedule = world()
    fn = mica.compile(step, backend=backend)
    for number in range(10):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(number))
        assert fn(x) == other_step(x)
        schedule.step()
        other_schedule.step()
        for a, b in zip(
            net.state_dict().values(), other.state_dict().values(), strict=True
        ):
            assert torch.equal(a, b)
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            assert torch.equal(a.grad, b.grad)
    assert backend.calls >= 5


def test_autocast_is_part_of_the_graph():
    net = nn.Linear(4, 4)
    fn = mica.compile(net, backend=Counting())
    x = torch.randn(2, 4)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(3):
            assert torch.equal(fn(x), net(x))
    assert mica.explain(fn).hits == 2


def test_outputs_that_share_memory_are_parted():
    def backend(module, example_inputs):
        def run(x):
            return [x, x]  # Its inputs, and one tensor twice.

        return run

    fn = mica.compile(lambda x: (x + 0, x * 1), backend=backend)
    fn(torch.ones(2))
    x = torch.ones(2)
    a, b = fn(x)
    a.add_(1)
    assert b.tolist() == x.tolist() == [1.0, 1.0]


def test_a_backend_that_fails_is_a_reason_to_run_eagerly():
    def fails(module, example_inputs):
        raise RuntimeError("no such device")

    fn = mica.compile(lambda x: x + 1, backend=fails)
    assert fn(torch.ones(1)).item() == 2.0
    assert "the backend raised RuntimeError: no such device" in str(
        mica.explain(fn)
    )
    fn = mica.compile(lambda x: x + 1, backend=fails, fullgraph=True)
    with pytest.raises(mica.CaptureError, match="no such device"):
        fn(torch.ones(1))


def test_what_a_backend_made_may_fail_or_return_nonsense():
    def shorter(module, example_inputs):
        return lambda x: (x[:1],)

    fn = mica.compile(lambda x: x + 1, backend=shorter)
    for _ in range(3):
        assert fn(torch.ones(2)).tolist() == [2.0, 2.0]
    assert mica.explain(fn).hits == 0
    assert mica.explain(fn).eager_calls == 2


def test_wrong_backends_are_errors():
    with pytest.raises(TypeError, match="wants a backend"):
        mica.compile(lambda x: x, backend="inductor")
    with pytest.raises(ValueError, match="frozen"):
        mica.compile(lambda x: x, backend=Counting(), frozen=True)
    fn = mica.compile(lambda x: x + 1, backend=lambda module, inputs: 3)
    fn(torch.ones(1))
    assert "no callable" in str(mica.explain(fn))


def test_torchs_own_backends():
    from torch._dynamo import lookup_backend

    net = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2)).eval()
    fn = mica.compile(net, backend=lookup_backend("aot_eager"))
    x = torch.randn(4, 3)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fn(x), net(x))
    assert mica.explain(fn).hits == 2, mica.explain(fn)
