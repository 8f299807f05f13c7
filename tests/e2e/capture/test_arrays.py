"""Arrays of numpy's as arguments and results."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report
from e2e.capture.two_worlds import World
from torch import nn

import mica

EXACT = {"exact": True}


def floats(seed, *sizes, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(sizes).astype(dtype)


def looks(value):
    """What of a result can be seen, arrays by all that they are."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        form = (value.dtype.str, value.shape, value.strides, flags.writeable)
        return (*form, value.tolist())
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            value.shape,
            value.requires_grad,
            value.tolist(),
        )
    if isinstance(value, (list, tuple)):
        return [looks(item) for item in value]
    if isinstance(value, dict):
        return {key: looks(item) for key, item in value.items()}
    return value


def model():
    torch.manual_seed(0)
    return nn.Linear(8, 8)


def hits_of(program, *calls):
    """Compares calls with eager's, and what is left in arguments."""
    eager, served = World(), World()
    for world in (eager, served):
        world.net, world.kept = model(), []
    f = mica.compile(lambda *args: program(served, *args), exact=True)
    for args in calls:
        theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
        want, got = program(eager, *theirs), f(*ours)
        assert looks(got) == looks(want)
        assert looks(list(ours)) == looks(list(theirs))
        assert looks(served.kept) == looks(eager.kept)
    return report(f).hits


SAME = [(floats(seed, 4, 8),) for seed in range(5)]
DOUBLE = [(floats(seed, 4, 8, dtype=np.float64),) for seed in range(5)]


def predict(world, a):
    return world.net(torch.from_numpy(a)).argmax(1).cpu().numpy()


def one_of_batch(world, a):
    state = torch.from_numpy(a[0]).float().unsqueeze(0)
    return world.net(state).numpy()


def more_views(world, a):
    parts = a[1:3], a[None, ..., 2], a.T, a.reshape(8, 4), a[::2, 1::3]
    return [world.net.bias[0] * torch.from_numpy(part) for part in parts]


def by_functions(world, a):
    parts = (
        np.transpose(a, (1, 0)),
        np.expand_dims(a, 0),
        np.moveaxis(a, -1, 0),
        np.swapaxes(a, 0, 1).copy(),
        np.ascontiguousarray(a.T),
        np.squeeze(a[:1]),
        np.reshape(a, (2, -1)),
        np.stack([a, a]),
        np.concatenate([a, a[1:]]),
        np.array([a[0], a[1]]),
    )
    return [world.net.bias[0] * torch.from_numpy(part) for part in parts]


def as_lists(world, a):
    y = world.net(torch.from_numpy(a))
    return y.numpy().tolist(), torch.cat([y, y, y]).tolist(), a.tolist()


def as_float(world, a):
    return world.net(torch.from_numpy(a.astype(np.float32))).numpy()


def of_class(world, a):
    return world.net(torch.FloatTensor(a)), torch.Tensor(a)


def copied(world, a):
    made = torch.tensor(a, dtype=torch.float32), torch.tensor(a.copy())
    a += 0  # numpy, of one in a tensor's memory: its numbers are looked at.
    return made


def shared(world, a):
    made = torch.as_tensor(a, dtype=torch.float32, device="cpu")
    return world.net(made), torch.as_tensor(a), torch.from_numpy(np.asarray(a))


def told_by_class(world, a):
    if isinstance(a, np.ndarray):
        a = torch.from_numpy(a)
    return world.net(a)


def by_form(world, a):
    size = a.shape[0] * a.ndim + len(a) + a.size
    return world.net(torch.from_numpy(a)) / size, str(a.dtype)


def written(world, a):
    tensor = torch.from_numpy(a)
    tensor.mul_(2)
    return tensor.sum(), a


def kept(world, a):
    world.kept.append(world.net(torch.from_numpy(a)).numpy())
    return torch.from_numpy(a).sum()


def with_its_tensor(world, a):
    y = world.net(torch.from_numpy(a))
    return y, y.numpy(), y[0].numpy(), y.t().numpy()


def written_later(world, a):
    y = world.net(torch.from_numpy(a))
    array = y.numpy()
    y.mul_(3)
    return array


def round_trip(world, a):
    array = world.net(torch.from_numpy(a)).numpy()
    return torch.from_numpy(array).sum(), torch.tensor(array).sum()


def of_argument(world, a):
    return torch.from_numpy(a).numpy(), a, torch.from_numpy(a).t().numpy()


@pytest.mark.parametrize(
    "program",
    [
        predict,
        one_of_batch,
        more_views,
        by_functions,
        as_lists,
        told_by_class,
        by_form,
        written,
        kept,
        with_its_tensor,
        written_later,
        round_trip,
        of_argument,
    ],
)
def test_float_arrays_are_served(program):
    assert hits_of(program, *SAME) == 4


@pytest.mark.parametrize("program", [one_of_batch, as_float, of_class, shared])
def test_double_arrays_are_served(program):
    assert hits_of(program, *DOUBLE) == 4


def test_arrays_in_containers():
    def program(world, batch):
        return {
            name: world.net(torch.from_numpy(array)).numpy()
            for name, array in batch.items()
        }

    calls = [
        ({"a": floats(seed, 4, 8), "b": floats(9 - seed, 4, 8)},)
        for seed in range(4)
    ]
    assert hits_of(program, *calls) == 3


def test_other_sizes():
    calls = [(floats(seed, 3 + seed, 8),) for seed in range(6)]
    assert hits_of(predict, *calls) == 4


def test_other_sizes_of_what_is_asked_for_its_shape():
    def program(world, a):
        return world.net(torch.from_numpy(a)).sum(0) / a.shape[0]

    calls = [(floats(3 + seed % 2, 3 + seed % 2, 8),) for seed in range(6)]
    assert hits_of(program, *calls) == 4


def test_other_kinds_are_told_apart():
    arrays = [
        floats(0, 4, 8),
        floats(0, 8, 4).T,
        floats(0, 4, 8)[:, ::1],
        floats(0, 4, 8).astype(np.float64),
        np.arange(32).reshape(4, 8),
        np.arange(32, dtype=np.uint8).reshape(4, 8) > 7,
    ]

    def program(world, a):
        return torch.from_numpy(a) * 2

    hits_of(program, *[(a,) for a in arrays + arrays])


def test_one_array_twice():
    def program(world, a, b):
        torch.from_numpy(a).add_(1)
        return torch.from_numpy(b) * 2

    f = mica.compile(lambda *args: program(None, *args), exact=True)
    for pair in ("apart", "one", "apart", "one", "view", "one", "view"):
        outcome = []
        for call in (lambda *args: program(None, *args), f):
            a, b = floats(0, 4), floats(1, 4)
            if pair == "one":
                b = a
            if pair == "view":
                b = a[:]
            outcome.append((looks(call(a, b)), looks(a), looks(b)))
        assert outcome[0] == outcome[1], pair


def test_array_and_a_tensor_in_its_memory():
    def program(a, b):
        torch.from_numpy(a).add_(1)
        return b * 2

    f = mica.compile(program, exact=True)
    for is_shared in (False, True, False, True):
        outcome = []
        for call in (program, f):
            a = floats(0, 4)
            b = torch.from_numpy(a if is_shared else a.copy())
            outcome.append((looks(call(a, b)), looks(a), looks(b)))
        assert outcome[0] == outcome[1]


@pytest.mark.parametrize("size", [4, 40])
def test_numbers_that_numpy_reads(size):
    def mean(world, a):
        return torch.from_numpy(a) + float(np.mean(a))

    def item(world, a):
        return torch.from_numpy(a) * float(a[0, 1])

    def arithmetic(world, a):
        return torch.from_numpy(a * 2 + 1)

    def result(world, a):
        return world.net(torch.from_numpy(a)).numpy() * 2

    def number(world, a):
        return float(world.net(torch.from_numpy(a)).numpy().mean())

    calls = [(floats(seed, size, 8),) for seed in (0, 0, 1, 2, 0)]
    for program in (mean, item, arithmetic, result, number):
        hits_of(program, *calls)


@pytest.mark.parametrize("size", [4, 40])
def test_numbers_that_numpy_writes(size):
    def argument(world, a):
        before = torch.from_numpy(a).sum()
        a[0] = 1
        return before, torch.from_numpy(a).sum()

    def result(world, a):
        y = world.net(torch.from_numpy(a))
        y.numpy()[0] = 1
        return y, y.sum()

    def in_place(world, a):
        a += 1
        return torch.from_numpy(a) * 2

    def by_function(world, a):
        np.add(a, 1, out=a)
        return torch.from_numpy(a) * 2

    def of_view(world, a):
        a[1:][0] = 5
        return torch.from_numpy(a) * 2

    def form(world, a):
        a.shape = (8, a.shape[0])
        return torch.from_numpy(a) * 2

    calls = [(floats(seed, size, 8),) for seed in (0, 0, 1, 2, 0)]
    for program in (argument, result, in_place, by_function, of_view, form):
        hits_of(program, *calls)


def test_read_only_arrays():
    def program(world, a):
        return torch.tensor(a) * 2

    calls = []
    for seed in (0, 0, 1, 1):
        array = floats(seed, 4)
        array.flags.writeable = False
        calls.append((array,))
    eager = [looks(program(None, *call)) for call in calls]
    f = mica.compile(lambda a: program(None, a))
    assert [looks(f(*call)) for call in calls] == eager


def test_array_lives_as_long_as_its_result():
    f = mica.compile(lambda a: torch.from_numpy(a))
    results = [f(floats(seed, 64)) for seed in range(4)]
    for seed, result in enumerate(results):
        assert looks(result) == looks(torch.from_numpy(floats(seed, 64)))
    assert report(f).hits == 3


def test_training_step_of_arrays():
    def program(world, a, b):
        with torch.enable_grad():
            y = world.net(torch.from_numpy(a))
            loss = (y - torch.as_tensor(b)).square().mean()
            loss.backward()
        for p in world.net.parameters():
            p -= 0.1 * p.grad
            p.grad = None
        return loss.item()

    calls = [(floats(i, 4, 8), floats(i + 50, 4, 8)) for i in range(4)]
    assert hits_of(program, *calls) == 3


# ---- found by tools/guard_fuzz.py ----
def test_a_list_that_grows_is_no_arrays_list():
    def program(world, a):
        numbers = a.tolist()
        numbers += [1.0]
        return numbers

    assert hits_of(program, *[(floats(0, 4),)] * 3) == 2


@pytest.mark.parametrize("key", [0, slice(0, 2), (slice(None), None)])
def test_an_index_that_raises(key):
    def program(a):
        return torch.from_numpy(a[key]) + 1

    f = mica.compile(program)
    f(floats(0, 4, 4))
    for _ in range(3):
        with pytest.raises(IndexError, match="too many indices"):
            f(np.array(1.0, "f"))
        assert looks(f(floats(1, 4, 4))) == looks(program(floats(1, 4, 4)))


def test_arrays_that_a_partial_hands_on():
    def program(scale, a):
        return torch.from_numpy(a.astype("d")) * scale + float(a[0])

    f = mica.compile(functools.partial(program, 2.0), exact=True)
    for seed in (0, 1, 0, 2):
        want = program(2.0, floats(seed, 4))
        assert looks(f(a=floats(seed, 4))) == looks(want)


def test_sparse_tensors_have_no_list():
    def program(a):
        return a.tolist()

    f = mica.compile(program)
    f(torch.ones(3))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="storage"):
            f(torch.ones(3).to_sparse())


@pytest.mark.parametrize("kind", ["argument", "state", "made"])
def test_an_array_without_dims_gets_one_by_ascontiguousarray(kind):
    state = torch.tensor(2.0)

    def program(x):
        taken = {"argument": x, "state": state, "made": x * 2}[kind]
        return x + torch.from_numpy(np.ascontiguousarray(taken.numpy()))

    compiled = mica.compile(program)
    for call in range(4):
        x = torch.tensor(float(call))
        want, got = program(x), compiled(x)
        assert got.shape == want.shape == (1,) and torch.equal(got, want)
