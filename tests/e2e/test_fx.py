"""mica.to_fx: captured Programs as graphs of torch.fx."""

import copy

import pytest
import torch
from e2e.model_checks import tensors
from e2e.test_models_vision import make
from e2e.test_random_nets import RandomNet
from torch import nn

import mica
import zoo


def same(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and torch.equal(a.isnan(), b.isnan())
        and torch.equal(a.nan_to_num(), b.nan_to_num())
    )


def held(module, program, args):
    """Runs a graph twice and holds it to eager, bit for bit."""
    with torch.no_grad():
        for _ in range(2):
            flat = [a for a in args if isinstance(a, torch.Tensor)]
            want = tensors(program(*args))
            got = module(*flat)
            for a, b in zip(got, want, strict=True):
                assert same(a, b)


@pytest.mark.parametrize("entry", zoo.ENTRIES, ids=lambda e: e.name)
def test_models_of_the_zoo_run_bit_for_bit_as_eager(entry):
    model = make(entry) if entry.family == "vision" else entry.make("small")
    args, kwargs = entry.inputs("small", 2, 9)
    with torch.no_grad():
        module = mica.to_fx(model, args, kwargs)
        inputs = {id(t): t for t in tensors([list(args), kwargs])}
        want = {id(t): t for t in tensors(model(*args, **kwargs))}
        got = module(*inputs.values())
    assert len(got) == len(want)
    assert all(same(a, b) for a, b in zip(got, want.values(), strict=True))
    names = {n for n, _ in module.named_parameters()}
    assert names <= {n for n, _ in model.named_parameters()}
    for node in module.graph.nodes:
        if node.op == "call_function":
            assert isinstance(
                node.target, torch._ops.OpOverload
            ) or node.target.__module__ in ("_operator", "math")


@pytest.mark.parametrize("seed", range(24))
def test_random_nets_run_bit_for_bit_as_eager(seed):
    net = RandomNet(seed).eval()
    with torch.no_grad():
        module = mica.to_fx(net, (net.x,))
        want = {id(t): t for t in net(net.x)}
        for a, b in zip(module(net.x), want.values(), strict=True):
            assert same(a, b)


def train(net, x, optimizer):
    optimizer.zero_grad()
    y = net(x).clone()
    y[0] += 1
    y[:, 1] = 2
    loss = y.square().mean() * x.sum().item()
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_training_step_runs_bit_for_bit_as_eager(kind, fused):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 5),
        nn.Dropout(0.5),
    )
    more = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer = kind(net.parameters(), lr=1e-3, fused=fused, **more)
    step = mica.compile(lambda x: train(net, x, optimizer))
    for _ in range(4):
        step(torch.randn(2, 3, 8, 8))
    module = mica.to_fx(mica.records(step)[0])
    x = torch.randn(2, 3, 8, 8)
    state = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    for number, parameter in enumerate(net.parameters()):
        for name, value in optimizer.state[parameter].items():
            if isinstance(value, torch.Tensor):
                state[f"{number}.{name}"] = value
    before = {name: value.detach().clone() for name, value in state.items()}
    torch.manual_seed(3)
    loss = train(net, x, optimizer)
    after = {name: value.detach().clone() for name, value in state.items()}
    with torch.no_grad():
        for name, value in before.items():
            state[name].copy_(value)
        torch.manual_seed(3)
        results = module(x)
    assert same(results[0], loss.detach())
    for name, value in after.items():
        assert same(state[name].detach(), value), name


def test_written_inputs_and_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(x.sum(0))
            view = x[1:]
            view.mul_(2)
            return x + 1, view.t(), self.seen * 2

    net = Net()
    other = copy.deepcopy(net)
    x = torch.randn(4, 3)
    module = mica.to_fx(mica.records(compiled_once(net, x.clone()))[0])
    net.seen.zero_()
    a, b = x.clone(), x.clone()
    for _ in range(2):
        with torch.no_grad():
            want, got = other(a), module(b)
        assert torch.equal(a, b)
        assert torch.equal(net.seen, other.seen)
        for one, other_one in zip(got, want, strict=True):
            assert same(one, other_one)


def compiled_once(net, *args):
    fn = mica.compile(net)
    with torch.no_grad():
        fn(*args)
    return fn


def test_views_that_come_as_inputs():
    def program(x):
        y = x.as_strided((2, 2), (1, 2), x.storage_offset())
        z = torch.zeros(4, 4)
        z[1:3, ::2] = y
        return z, y * 2

    storage = torch.arange(30.0)
    x = storage[5:25].view(4, 5)[1:, 1:]
    module = mica.to_fx(program, (x,))
    held(module, program, (x,))
    held(module, program, (storage[10:30].view(4, 5)[1:, 1:],))


def test_places_that_vary_follow_from_inputs():
    def write(rows, x, at):
        rows[:, at] = x
        return rows[at : at + 2].exp().sum() + rows[at, 1]

    compiled = mica.compile(write)
    rows, x = torch.zeros(5, 5), torch.randn(5)
    with torch.no_grad():
        for at in range(3):
            compiled(rows, x, at)
    record = mica.records(compiled)[0]
    module = mica.to_fx(record)
    twin = rows.clone()
    want = write(twin, x, 3)
    result = module(rows, x, 3.0)[0]
    torch.testing.assert_close(result, want)
    torch.testing.assert_close(rows, twin)


def test_numbers_that_vary_are_inputs():
    def program(x, rate):
        return x * rate + 1 / rate

    fn = mica.compile(program)
    x = torch.ones(3)
    for rate in (0.5, 0.25, 0.75):
        fn(x, rate)
    module = mica.to_fx(mica.records(fn)[0])
    assert torch.equal(module(x, 0.3)[0], program(x, 0.3))


def test_a_program_from_text():
    program = mica.Program.parse(
        "program @f(%x: f32[2,3]) {\n"
        '  %w = variable "fc.weight" : f32[3,2]\n'
        "  %0 = aten.mm(%x, %w) : f32[2,2]\n"
        "  return %0\n}\n",
        {"fc.weight": torch.nn.Parameter(torch.ones(3, 2))},
    )
    module = mica.to_fx(program)
    assert [n for n, _ in module.named_parameters()] == ["fc.weight"]
    with torch.no_grad():
        assert module(torch.ones(2, 3))[0].tolist() == [[3.0, 3.0]] * 2


def test_nodes_have_the_users_lines():
    def program(x):
        return torch.relu(x) + 1

    module = mica.to_fx(program, (torch.ones(2),))
    lines = {
        n.target: n.meta["line"]
        for n in module.graph.nodes
        if n.op == "call_function"
    }
    line = program.__code__.co_firstlineno + 1
    assert lines[torch.ops.aten.relu.default] == f"{__file__}:{line}"


def test_a_branch_has_no_form_in_aten():
    program = mica.Program.parse(
        "program @f(%p: bool[], %x: f32[2]) {\n"
        "  %0 = mica.if(%p, [%x]) : f32[2]\n"
        "    then(%a: f32[2]) {\n      return %a\n    }\n"
        "    else(%b: f32[2]) {\n      return %b\n    }\n"
        "  return %0\n}\n"
    )
    with pytest.raises(NotImplementedError, match="mica.if"):
        mica.to_fx(program)
    with pytest.raises(TypeError, match="arguments"):
        mica.to_fx(torch.relu)
