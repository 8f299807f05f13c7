"""A compiled module is a torch.nn.Module, to all the rest of PyTorch."""

from __future__ import annotations

import abc
import collections.abc
import copy
import functools
import gc
import inspect
import io
import pickle
import weakref
from unittest import mock

import pytest
import torch
import torch.nn.utils.parametrize as parametrize
from e2e.modules_to_compile import (
    Net,
    Outer,
    agree,
    hits,
    made,
    plain,
    served,
    x,
)
from torch import nn
from torch.nn.utils import prune

import mica


def test_it_is_an_instance_of_its_modules_class():
    net = Net()
    m = mica.compile(net)
    assert isinstance(m, nn.Module)
    assert isinstance(m, Net)
    assert m.__class__ is Net
    assert type(m).__name__ == "Net"
    assert type(m).__module__ == Net.__module__
    assert isinstance(m, collections.abc.Callable)
    assert not isinstance(m, collections.abc.Sized)
    assert isinstance(
        mica.compile(nn.Sequential(nn.ReLU())), collections.abc.Sized
    )
    assert m.__wrapped__ is net
    assert repr(m).startswith("mica.compile(Net(\n  (fc): Linear")
    assert inspect.signature(m.forward) == inspect.signature(net.forward)
    assert inspect.signature(m) == inspect.signature(net)
    agree(m, net)


def test_walks_have_the_modules_own_names():
    net = Net()
    m = mica.compile(net)
    for walk in (
        "named_parameters",
        "named_buffers",
        "named_children",
        "named_modules",
    ):
        ours = list(getattr(m, walk)())
        theirs = list(getattr(net, walk)())
        assert [name for name, _ in ours] == [name for name, _ in theirs]
        assert all(a is b or b is net for (_, a), (_, b) in zip(ours, theirs))
    assert next(m.modules()) is m
    assert list(m.parameters())[0] is net.fc.weight
    assert list(m.buffers())[0] is net.shift
    assert list(m.children()) == [net.fc]
    assert m.get_submodule("fc") is net.fc
    assert m.get_parameter("fc.weight") is net.fc.weight
    assert m._get_name() == "Net"
    assert dir(m) == sorted(set(dir(net)) | set(dir(m)))
    assert m.extra_repr() == ""


@pytest.mark.parametrize(
    "build",
    [
        lambda wrap: Outer(wrap),
        lambda wrap: nn.Sequential(wrap(nn.Linear(4, 4)), nn.ReLU()),
        lambda wrap: nn.Sequential(
            nn.ReLU(), nn.Sequential(wrap(Net()), wrap(nn.Linear(4, 4)))
        ),
    ],
)
def test_as_a_child_its_state_has_the_names_of_a_plain_one(build):
    ours, theirs = made(build, mica.compile), made(build, plain)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for walk in ("named_parameters", "named_modules"):
        assert [n for n, _ in getattr(ours, walk)()] == [
            n for n, _ in getattr(theirs, walk)()
        ]
    with torch.no_grad():
        for i in range(3):
            torch.testing.assert_close(ours(x(i)), theirs(x(i)))
    child = next(
        c for c in ours.modules() if isinstance(c, mica._mica.Compiled)
    )
    assert hits(child) == 2
    agree(mica.compile(ours), theirs)
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())


def test_containers_of_compiled_modules():
    items = nn.ModuleList([mica.compile(nn.Linear(4, 4)) for _ in range(3)])
    assert len(items.state_dict()) == 6
    named = nn.ModuleDict({"a": mica.compile(Net()), "b": nn.ReLU()})
    assert "a.fc.weight" in named.state_dict()
    assert "(0-2): 3 x mica.compile(Linear" in repr(items)


def test_a_compiled_container_is_a_container():
    s = mica.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    assert len(s) == 2
    assert [type(i) for i in s] == [nn.Linear, nn.ReLU]
    assert isinstance(s[0], nn.Linear)
    assert isinstance(s[0:1], nn.Sequential)
    assert not isinstance(s[0:1], mica._mica.Compiled)
    agree(s, s.__wrapped__)
    s.append(nn.Linear(4, 4))
    agree(s, s.__wrapped__)
    s[1] = nn.Sigmoid()
    agree(s, s.__wrapped__)
    del s[2]
    assert len(s) == 2
    agree(s, s.__wrapped__)
    s[1] = mica.compile(nn.Tanh())
    assert s[1](x()).shape == (3, 4)
    assert bool(mica.compile(nn.Linear(1, 1)))

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.names = ["a"]

        def __contains__(self, name):
            return name in self.names

        def __getitem__(self, name):
            return self.names.index(name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.names.append("left")

    t = mica.compile(Table())
    assert "a" in t and "b" not in t and t["a"] == 0
    with t as entered:
        assert entered is t
    assert t.names == ["a", "left"]


def test_attributes_are_the_modules():
    net = Net()
    m = mica.compile(net)
    agree(m, net)
    m.scale = 3.0
    assert net.scale == 3.0
    agree(m, net)
    net.scale = 4.0
    assert m.scale == 4.0
    agree(m, net)
    m.twice = 1.0
    assert net.scale == 0.5 and m.twice == 1.0
    agree(m, net)
    m.fc = nn.Linear(4, 4)
    assert net.fc is m.fc
    agree(m, net)
    m.fc.weight = nn.Parameter(torch.zeros(4, 4))
    agree(m, net)
    m.extra = nn.Parameter(torch.zeros(2))
    assert "extra" in net.state_dict()
    del m.extra
    assert not hasattr(net, "extra") and not hasattr(m, "extra")
    with pytest.raises(AttributeError, match="'Net' object has no attribute"):
        _ = m.nothing
    with pytest.raises(AttributeError):
        del m.nothing
    with pytest.raises(TypeError, match="cannot assign"):
        m.fc = "text"
    m.register_buffer("late", torch.zeros(1), persistent=False)
    assert list(dict(net.named_buffers())) == ["shift", "late"]
    assert vars(m) is vars(net)


def test_methods_call_the_compiled_module():
    net = Net()
    m = mica.compile(net)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(m.generate(x()), net.generate(x()))
    assert hits(m) == 2


def test_forward_by_itself_is_served_without_hooks():
    net = Net()
    m = mica.compile(net)
    seen = []
    m.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        for i in range(3):
            torch.testing.assert_close(m.forward(x(i)), net.forward(x(i)))
    assert seen == []
    assert hits(m.forward) == 2
    assert m.forward.__func__ is Net.forward
    mica.reset(m)
    assert hits(m.forward) == 0


def test_forward_may_be_patched_on_either():
    for side in range(2):
        net = Net()
        m = mica.compile(net)
        one = (m, net)[side]
        agree(m, net)
        with mock.patch.object(one, "forward", lambda a: a * 7):
            torch.testing.assert_close(m(x()), x() * 7)
            torch.testing.assert_close(m.forward(x()), x() * 7)
            agree(m, net)
        agree(m, net)
        with mock.patch.object(Net, "forward", lambda self, a: a * 8):
            torch.testing.assert_close(m(x()), x() * 8)
            torch.testing.assert_close(m.forward(x()), x() * 8)
        agree(m, net)
        with pytest.raises(TypeError, match="immutable"):
            type(m).forward = None


def test_modes_and_types_change_on_either_side():
    net = Net()
    m = mica.compile(net)
    assert m.eval() is m and not net.training and not net.fc.training
    agree(m, net)
    assert m.train() is m and net.fc.training
    net.eval()
    assert not m.training
    m.training = True
    assert net.training
    assert m.to(torch.float64) is m
    assert net.fc.weight.dtype == torch.float64
    with torch.no_grad():
        torch.testing.assert_close(m(x().double()), net(x().double()))
    assert m.float() is m and m.half() is m
    assert net.shift.dtype == torch.float16
    assert m.bfloat16() is m and m.float() is m and m.cpu() is m
    if not torch.cuda.is_available():
        errors = []
        for one in (m, net):
            with pytest.raises((RuntimeError, AssertionError)) as error:
                one.cuda()
            errors.append(str(error.value))
        assert errors[0] == errors[1]
    assert m.requires_grad_(False) is m
    assert not net.fc.weight.requires_grad
    m.requires_grad_(True)
    m(x()).sum().backward()
    assert net.fc.weight.grad is not None
    m.zero_grad()
    assert net.fc.weight.grad is None
    assert m.share_memory() is m
    assert net.fc.weight.is_shared()
    assert m.to(memory_format=torch.channels_last) is m
    assert m.to_empty(device="cpu") is m
    assert m.type(torch.float32) is m


def test_apply_reaches_each_module():
    net = Net()
    m = mica.compile(net)
    agree(m, net)
    seen = []

    def fill(module):
        seen.append(module)
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)

    assert m.apply(fill) is m
    assert seen == [net.fc, net]
    agree(m, net)


def test_hooks_on_either_side_run():
    for side in range(2):
        net, twin = made(Net), made(Net)
        m = mica.compile(net)
        agree(m, twin)
        one = (m, net)[side]
        handles = []
        told = []
        for module, log in ((one, told), (twin, [])):
            handles += [
                module.register_forward_pre_hook(lambda _, a: (a[0] + 1,)),
                module.register_forward_hook(lambda _, a, out: out * 3),
                module.register_forward_hook(
                    lambda _, a, kw, out: out + len(kw), with_kwargs=True
                ),
            ]
            assert len(module._forward_hooks) == 2
        agree(m, twin)
        for handle in handles:
            handle.remove()
        agree(m, twin)
        assert not net._forward_hooks

        # Hooks get the module inside, which equals the compiled one.
        names = {module: name for name, module in m.named_modules()}
        handle = one.register_forward_hook(
            lambda module, *_: told.append(names[module])
        )
        m(x())
        m(x())
        assert told == ["", ""]
        handle.remove()
        assert m == net and hash(m) == hash(net) and m != Net()
        assert net in list(m.modules())


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_backward_hooks_run():
    for side in range(2):
        net, twin = made(Net), made(Net)
        m = mica.compile(net)
        seen, wanted = [], []
        (m, net)[side].register_full_backward_hook(
            lambda _, given, got: seen.append(got[0].clone())
        )
        twin.register_full_backward_hook(
            lambda _, given, got: wanted.append(got[0].clone())
        )
        for i in range(4):
            m(x(i)).square().sum().backward()
            twin(x(i)).square().sum().backward()
            torch.testing.assert_close(net.fc.weight.grad, twin.fc.weight.grad)
        torch.testing.assert_close(seen, wanted)


def test_global_hooks_run():
    m = mica.compile(Net())
    agree(m, m.__wrapped__)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, *_: seen.append(type(module).__name__)
    )
    m(x())
    assert seen == ["Linear", "Net"]
    handle.remove()
    agree(m, m.__wrapped__)


def test_state_dict_hooks_run():
    m = mica.compile(Net())
    m._register_state_dict_hook(
        lambda module, state, prefix, _: state.update({prefix + "more": 1})
    )
    m.register_state_dict_pre_hook(lambda module, prefix, keep: None)
    assert m.state_dict()["more"] == 1
    seen = []
    m.register_load_state_dict_pre_hook(lambda *args: seen.append("before"))
    m.register_load_state_dict_post_hook(lambda *args: seen.append("after"))
    found = m.load_state_dict(Net().state_dict())
    assert not found.missing_keys and seen == ["before", "after"]
    with pytest.raises(RuntimeError, match="for Net:"):
        m.load_state_dict({})


def test_loaded_state_is_served():
    m = mica.compile(Net())
    agree(m, m.__wrapped__)
    other = Net()
    m.load_state_dict(other.state_dict())
    agree(m, other)
    fresh = Net()
    m.load_state_dict(fresh.state_dict(), assign=True)
    agree(m, fresh)


def test_a_deep_copy_is_a_compiled_module_of_its_own():
    net = Net()
    m = mica.compile(net, exact=True)
    agree(m, net)
    c = copy.deepcopy(m)
    assert c is not m and isinstance(c, mica._mica.Compiled)
    assert c.__wrapped__ is not net and hits(c) == 0
    c.fc.weight.data.zero_()
    agree(m, net)
    with torch.no_grad():
        assert torch.equal(served(c, x()), c.__wrapped__(x()))
    both = copy.deepcopy([m, net, m])
    assert both[0] is both[2] and both[0].__wrapped__ is both[1]
    outer = copy.deepcopy(Outer(mica.compile))
    assert isinstance(outer.body, mica._mica.Compiled)
    agree(outer.body, outer.body.__wrapped__)


def test_a_shallow_copy_shares_parameters():
    net = Net()
    m = mica.compile(net)
    c = copy.copy(m)
    assert isinstance(c, mica._mica.Compiled) and c.__wrapped__ is not net
    assert c.fc.weight is net.fc.weight
    c.scale = 9.0
    assert m.scale == 2.0
    agree(c, c.__wrapped__)


def test_pickles_are_compiled_after_loading():
    m = made(lambda: mica.compile(Net(), exact=True))
    agree(m, m.__wrapped__)
    loaded = [pickle.loads(pickle.dumps(m))]
    file = io.BytesIO()
    torch.save({"model": m, "list": [m, m.__wrapped__]}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    assert saved["list"][0] is saved["model"]
    assert saved["list"][1] is saved["model"].__wrapped__
    loaded.append(saved["model"])
    for one in loaded:
        assert isinstance(one, mica._mica.Compiled)
        assert one._mica_arguments["exact"]
        agree(one, m)
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    Net().load_state_dict(torch.load(file))


@mica.compile
def decorated(a):
    return a * 2 + 1


class WithMethod(nn.Module):
    """Compiles a method of its own in `__init__`."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.step = mica.compile(self._step)

    def _step(self, a):
        return self.fc(a)

    def forward(self, a):
        return self.step(a)


def test_copies_of_compiled_functions():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    assert copy.copy(decorated) is decorated
    one = WithMethod()
    for two in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        two.fc.weight.data.zero_()
        two.fc.bias.data.zero_()
        assert isinstance(two.step, mica._mica.Compiled)
        assert two.step.__wrapped__.__self__ is two
        with torch.no_grad():
            assert two(x()).abs().max() == 0
            assert served(two.step, x()).abs().max() == 0
    partial = functools.partial(mica.compile, fullgraph=True)
    assert pickle.loads(pickle.dumps(partial))(decorated)(x()).shape == (3, 4)


def test_a_class_is_compiled_by_its_forward():
    @mica.compile
    class Doubled(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, a):
            return a * self.scale

    assert isinstance(Doubled, type)

    class Derived(Doubled):
        def forward(self, a):
            return super().forward(a) + 1

    for scale in (2.0, 3.0):
        one = Doubled(scale)
        for i in range(3):
            torch.testing.assert_close(one(x(i)), x(i) * scale)
        torch.testing.assert_close(Derived(scale)(x()), x() * scale + 1)
    assert hits(Doubled.forward) >= 4

    class ByMethod(nn.Module):
        @mica.compile
        def forward(self, a):
            return a + 5

    one = ByMethod()
    for i in range(3):
        torch.testing.assert_close(one(x(i)), x(i) + 5)
    assert hits(ByMethod.forward) == 2
    assert copy.deepcopy(one)(x()).shape == (3, 4)


def test_compiling_again_takes_the_new_options():
    net = Net()
    m = mica.compile(net)
    again = mica.compile(m, exact=True)
    assert again.__wrapped__ is net and again is not m
    with torch.no_grad():
        assert torch.equal(served(again, x()), net(x()))
    agree(m, net)
    mica.reset()
    assert hits(m) == hits(again) == 0


def test_a_compiled_parent_of_a_compiled_child_is_one_graph():
    ours, theirs = made(Outer, mica.compile), made(Outer, plain)
    m = mica.compile(ours)
    agree(m, theirs)
    assert mica.explain(m).is_one_graph
    ours.body.scale = 5.0
    theirs.body.scale = 5.0
    agree(m, theirs)
    handle = ours.body.register_forward_hook(lambda _, a, out: -out)
    theirs.body.register_forward_hook(lambda _, a, out: -out)
    agree(m, theirs)
    handle.remove()


def test_a_training_loop_over_parts():
    ours, theirs = made(Outer, mica.compile), made(Outer, plain)
    losses = []
    for net in (ours, theirs):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        losses.append([])
        for i in range(6):
            optimizer.zero_grad()
            loss = net(x(i)).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(*losses, rtol=1e-5, atol=0)
    assert hits(ours.body) >= 4
    torch.testing.assert_close(
        nn.utils.parameters_to_vector(ours.parameters()),
        nn.utils.parameters_to_vector(theirs.parameters()),
    )


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


@pytest.mark.parametrize("side", [0, 1])
def test_parametrize(side):
    net, twin = made(nn.Linear, 4, 4), made(nn.Linear, 4, 4)
    m = mica.compile(net)
    agree(m, twin)
    for one in ((m, net)[side], twin):
        parametrize.register_parametrization(one, "weight", Symmetric())
    assert m.__class__ is type(net)
    assert parametrize.is_parametrized(m)
    assert torch.equal(m.weight, m.weight.T)
    agree(m, twin)
    assert isinstance(m, nn.Linear)
    for one in ((m, net)[side], twin):
        parametrize.remove_parametrizations(one, "weight")
    assert m.__class__ is nn.Linear and type(m).__name__ == "Linear"
    agree(m, twin)


def test_norms_of_weights_and_pruning():
    for change in (
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.orthogonal,
        lambda module: prune.l1_unstructured(module, "weight", 0.5),
        lambda module: prune.random_structured(module, "weight", 0.5, dim=0),
    ):
        m, twin = mica.compile(made(nn.Linear, 4, 4)), made(nn.Linear, 4, 4)
        agree(m, twin)
        for one in (m, twin):
            torch.manual_seed(0)
            change(one)
        agree(m, twin)
    m, twin = mica.compile(made(nn.Linear, 4, 4)), made(nn.Linear, 4, 4)
    for one in (m, twin):
        prune.l1_unstructured(one, "weight", 0.5)
        prune.remove(one, "weight")
    agree(m, twin)


def test_averaged_models():
    m = mica.compile(Net())
    average = torch.optim.swa_utils.AveragedModel(m)
    assert isinstance(average.module, mica._mica.Compiled)
    with torch.no_grad():
        m.fc.weight.add_(1)
    average.update_parameters(m)
    with torch.no_grad():
        torch.testing.assert_close(
            served(average.module, x()), average.module.__wrapped__(x())
        )


def test_functional_call():
    net = Net()
    m = mica.compile(net)
    agree(m, net)
    for seed in range(3):
        torch.manual_seed(seed)
        weights = {"fc.weight": torch.randn(4, 4), "fc.bias": torch.randn(4)}
        with torch.no_grad():
            torch.testing.assert_close(
                torch.func.functional_call(m, weights, (x(),)),
                torch.func.functional_call(net, weights, (x(),)),
            )
    agree(m, net)
    grads = torch.func.grad(
        lambda w: torch.func.functional_call(m, w, (x(),)).sum()
    )(dict(net.named_parameters()))
    wanted = torch.func.grad(
        lambda w: torch.func.functional_call(net, w, (x(),)).sum()
    )(dict(net.named_parameters()))
    torch.testing.assert_close(grads, wanted)
    mica.reset()  # torch.func.grad asks for gradients of gradients.


def test_it_dies_with_its_last_reference():
    net = Net()
    m = mica.compile(net)
    agree(m, net)
    m.forward(x())
    refs = [weakref.ref(m), weakref.ref(net), weakref.ref(type(m))]
    del m
    gc.collect()
    assert refs[0]() is None and refs[1]() is net and refs[2]() is None
    m = mica.compile(net)
    del net, m
    gc.collect()
    assert refs[1]() is None
    loop = Net()
    loop.again = [mica.compile(loop)]
    ref = weakref.ref(loop)
    del loop
    gc.collect()
    assert ref() is None


def test_a_finalizer_runs_once():
    died = []

    class Mortal(Net):
        def __del__(self):
            died.append(1)

    m = mica.compile(Mortal())
    with torch.no_grad():
        m(x())
    del m
    gc.collect()
    assert died == [1]


def test_the_modules_class_learns_nothing():
    known = []

    class Registered(Net):
        def __init_subclass__(cls, **arguments):
            known.append(cls)

    class Meta(type):
        def __new__(cls, *args, **kwargs):
            known.append("made")
            return super().__new__(cls, *args, **kwargs)

    class OfMeta(Net, metaclass=Meta):
        pass

    class Abstract(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, a): ...

    class Concrete(Abstract):
        def forward(self, a):
            return a + 1

    del known[:]
    for net in (Registered(), OfMeta(), Concrete()):
        m = mica.compile(net)
        agree(m, net)
        assert isinstance(m, type(net))
    assert known == []
    assert isinstance(m, Abstract)
    plain_one = type(m)()
    assert type(plain_one) is Concrete


def test_classes_with_ways_of_their_own():
    class Slotted(nn.Module):
        __slots__ = ("factor",)

        def forward(self, a):
            return a * self.factor

    slotted = Slotted()
    slotted.factor = 2.0
    m = mica.compile(slotted)  # A callable, but no module.
    with torch.no_grad():
        torch.testing.assert_close(served(m, x()), x() * 2)
    assert m.factor == 2.0

    class Watching(Net):
        def __getattribute__(self, name):
            if name == "secret":
                return 42
            return super().__getattribute__(name)

    assert mica.compile(Watching()).secret == 42

    class Storing(Net):
        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2 if name == "k" else value)

    m = mica.compile(Storing())
    m.k = 2
    assert m.k == m.__wrapped__.k == 4

    lazy = mica.compile(nn.LazyLinear(4))
    with torch.no_grad():
        lazy(x())
    assert lazy.__class__ is nn.Linear and isinstance(lazy, nn.Linear)
    assert list(lazy.state_dict()) == ["weight", "bias"]
    agree(lazy, lazy.__wrapped__)


def test_another_dict_of_attributes_is_followed():
    net = Net()
    m = mica.compile(net)
    agree(m, net)
    net.__dict__ = Net().__dict__
    assert m.fc is net.fc
    agree(m, net)
    m.__dict__ = Net().__dict__
    assert m.fc is net.fc
    agree(m, net)


def test_graph_modules():
    g = torch.fx.symbolic_trace(Net())
    m = mica.compile(g)
    agree(m, g)
    for node in m.graph.nodes:
        if node.target is torch.add or "add" in str(node.target):
            node.target = torch.sub
    m.recompile()
    agree(m, g)
    assert "sub" in m.code
    traced = torch.fx.symbolic_trace(mica.compile(Net()))
    assert "self.fc" in traced.code
    assert "self.body" in torch.fx.symbolic_trace(Outer(mica.compile)).code


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_jit_is_told():
    m = mica.compile(Net())
    for one in (m, Outer(mica.compile)):
        with pytest.raises(TypeError, match="__wrapped__"):
            torch.jit.script(one)
    linear = mica.compile(nn.Linear(4, 4))
    torch.testing.assert_close(
        torch.jit.script(linear.__wrapped__)(x()), linear(x())
    )
    # A trace goes through the module inside.
    traced = torch.jit.trace(m, x())
    torch.testing.assert_close(traced(x(5)), m(x(5)))
