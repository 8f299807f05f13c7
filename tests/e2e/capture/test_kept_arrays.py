"""Arrays of numpy's that a program keeps and computes with."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.test_drawn_arrays import plain
from e2e.capture.two_worlds import drawn as x
from e2e.capture.two_worlds import with_grad
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


class World:
    def __init__(self, **state: Any) -> None:
        vars(self).update(copy.deepcopy(state))


Body = Callable[[Any, Tensor], Any]
Step = Callable[[Any], Any]


def kept(world: World) -> Any:
    return [
        plain([*value] if isinstance(value, deque) else value)
        for value in vars(world).values()
        if isinstance(value, (np.ndarray, list, deque, int, float))
    ]


def check(
    body: Body, *others: Step, count: int = 12, exact: bool = True, **state: Any
) -> int:
    """Calls it in two worlds, each of `others` once between; gives the hits."""
    eager, served = World(**state), World(**state)
    compiled = mica.compile(lambda a: body(served, a), exact=exact)
    for turn in range(count):
        if turn % 4 == 3 and turn // 4 < len(others):
            others[turn // 4](eager)
            others[turn // 4](served)
        np.random.seed(turn)
        want = plain(body(eager, x(turn)))
        np.random.seed(turn)
        same(plain(compiled(x(turn))), want)
        same(kept(served), kept(eager))
    return report(compiled).hits


def zeros(dtype: Any = np.float64) -> Any:
    return np.zeros(4, dtype)


def averaged(w: Any, a: Tensor) -> Any:
    w.mean = 0.9 * w.mean + 0.1 * a.mean(0).numpy()
    return a - torch.from_numpy(w.mean)


def averaged_in_place(w: Any, a: Tensor) -> Any:
    w.mean *= 0.9
    w.mean += a.mean(0).numpy()
    return torch.from_numpy(w.mean) * 2


def counted(w: Any, a: Tensor) -> Any:
    w.turn += 1
    row = a.mean(0).double().numpy()
    w.mean = w.mean + (row - w.mean) / w.turn
    return torch.from_numpy(w.mean)


def spread(w: Any, a: Tensor) -> Any:
    row = a.mean(0).double().numpy()
    delta = row - w.mean
    w.mean = w.mean + 0.1 * delta
    w.var = 0.9 * w.var + 0.1 * delta**2
    return torch.as_tensor((row - w.mean) / np.sqrt(w.var + 1e-8))


def walked(w: Any, a: Tensor) -> Any:
    w.mean = w.mean - 0.15 * w.mean + 0.2 * np.random.randn(4)
    return a + torch.as_tensor(w.mean, dtype=torch.float32)


def traced(w: Any, a: Tensor) -> Any:
    w.mean = 0.9 * w.mean + a.numpy()[0]
    return torch.from_numpy(w.mean).sum()


def negated(w: Any, a: Tensor) -> Any:
    w.mean = -w.mean + np.abs(a.mean(0).numpy()) - np.square(w.mean)
    return torch.from_numpy(w.mean) + 1


def divided(w: Any, a: Tensor) -> Any:
    w.mean = 3.0 / (1.0 + np.abs(a.double().mean(0).numpy())) - 1 / (2 + w.mean)
    return torch.from_numpy(w.mean)


def by_functions(w: Any, a: Tensor) -> Any:
    row = a.mean(0).double().numpy()
    w.mean = np.add(np.multiply(w.mean, 0.5), np.divide(row, 4.0))
    return torch.from_numpy(np.subtract(row, w.mean))


def steps(w: Any, a: Tensor) -> Any:
    w.hits = w.hits + (a > 0).sum(0).numpy()
    return torch.from_numpy(w.hits) * a


def above(w: Any, a: Tensor) -> Any:
    row = a.mean(0).double().numpy()
    higher = torch.from_numpy(row > w.mean)
    w.mean = w.mean + 0.5
    return higher, torch.from_numpy(row != row), torch.from_numpy(0.1 <= row)


def two_names(w: Any, a: Tensor) -> Any:
    w.mean += a.mean(0).numpy()
    return torch.from_numpy(w.other) * 1


def in_a_list(w: Any, a: Tensor) -> Any:
    w.many[0] = 0.5 * w.many[0] + a.mean(0).numpy() * w.many[1]
    return torch.from_numpy(w.many[0]) + 1


def in_a_deque(w: Any, a: Tensor) -> Any:
    w.last.append(a.mean(0).numpy())
    return torch.from_numpy(np.stack(list(w.last)))


def in_a_dict(w: Any, a: Tensor) -> Any:
    w.books["mean"] = 0.5 * w.books["mean"] + a.mean(0).numpy()
    return torch.tensor(w.books["mean"])


def cut_off(w: Any, a: Tensor) -> Any:
    w.mean = np.clip(w.mean + a.mean(0).double().numpy(), -1.0, 0.5)
    return torch.from_numpy(w.mean), torch.from_numpy((w.mean * 3).clip(-2, 1))


def constants_too(w: Any, a: Tensor) -> Any:
    w.mean = w.mean * np.array([1.0, 2.0, 3.0, 4.0]) * w.scale + np.float64(0.5)
    return torch.from_numpy(w.mean / np.ones(4)) + a


FOLLOWED: list[tuple[Body, dict[str, Any]]] = [
    (averaged, {"mean": zeros()}),
    (averaged_in_place, {"mean": zeros()}),
    (averaged_in_place, {"mean": zeros(np.float32)}),
    (counted, {"mean": zeros(), "turn": 0}),
    (spread, {"mean": zeros(), "var": zeros() + 1}),
    (walked, {"mean": zeros()}),
    (traced, {"mean": zeros(np.float32)}),
    (negated, {"mean": zeros(np.float32)}),
    (divided, {"mean": zeros()}),
    (by_functions, {"mean": zeros()}),
    (steps, {"hits": zeros(np.int64)}),
    (above, {"mean": zeros()}),
    (in_a_list, {"many": [zeros(), zeros() + 2]}),
    (in_a_deque, {"last": deque([zeros(np.float32)] * 3, maxlen=3)}),
    (in_a_dict, {"books": {"mean": zeros()}}),
    (cut_off, {"mean": zeros()}),
    (constants_too, {"mean": zeros(), "scale": np.full(4, 0.25)}),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("body", "state"), FOLLOWED)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_it_is_a_tensor_to_the_program(
    body: Body, state: dict[str, Any], exact: bool
) -> None:
    assert check(body, count=14, exact=exact, **state) >= 9


class Statistics:
    """Of observations, as those who train agents keep them."""

    def __init__(self) -> None:
        self.mean, self.var, self.count = zeros(), zeros() + 1, 1e-4

    def update(self, rows: Any) -> None:
        delta = np.mean(rows, axis=0) - self.mean
        total = self.count + rows.shape[0]
        self.mean = self.mean + delta * rows.shape[0] / total
        m_a, m_b = self.var * self.count, rows.var(axis=0) * rows.shape[0]
        m_2 = m_a + m_b + delta**2 * self.count * rows.shape[0] / total
        self.var, self.count = m_2 / total, total

    def normalise(self, rows: Any) -> Any:
        spread = np.sqrt(self.var + 1e-8)
        return np.clip((rows - self.mean) / spread, -5.0, 5.0)


@pytest.mark.parametrize("exact", [False, True])
def test_observations_are_normalised(exact: bool) -> None:
    eager, served = Statistics(), Statistics()

    def step(own: Statistics, a: Tensor) -> Any:
        rows = a.double().numpy()
        own.update(rows)
        return torch.as_tensor(own.normalise(rows), dtype=torch.float32)

    compiled = mica.compile(lambda a: step(served, a), exact=exact)
    for turn in range(16):
        same(compiled(x(turn)), step(eager, x(turn)))
        for name in ("mean", "var"):
            mine, want = getattr(served, name), getattr(eager, name)
            assert mine.dtype == want.dtype
            np.testing.assert_allclose(mine, want, rtol=0 if exact else 1e-9)
        assert served.count == eager.count
    assert exact or report(compiled).hits >= 12


def extremes(_: Any, a: Tensor) -> Any:
    rows = a.numpy()
    over = [rows.max(0), rows.min(axis=1), rows.sum(-1), np.std(rows, axis=1)]
    return [torch.from_numpy(row) for row in over]


def test_reductions_over_one_dim() -> None:
    assert check(extremes, exact=False) >= 10
    check(extremes, exact=True)


def test_two_names_for_one_array() -> None:
    def join(w: Any) -> None:
        w.other = w.mean

    def part(w: Any) -> None:
        w.other = w.mean.copy()

    state = {"mean": zeros(), "other": zeros()}
    assert check(two_names, join, part, join, count=24, **state) >= 8


def fill(w: Any) -> None:
    w.mean[:] = 5.0


def replace(w: Any) -> None:
    w.mean = np.arange(4.0)


def narrow(w: Any) -> None:
    w.mean = w.mean.astype(np.float32)


def widen(w: Any) -> None:
    w.mean = np.zeros((2, 4))


def reverse(w: Any) -> None:
    w.mean = w.mean[..., ::-1]


def lock(w: Any) -> None:
    w.mean = w.mean.copy()
    w.mean.flags.writeable = False


def number(w: Any) -> None:
    w.mean = 1.5


@pytest.mark.parametrize("body", [averaged, traced])
def test_others_change_it_between_calls(body: Body) -> None:
    others = [fill, replace, narrow, widen, reverse, lock, replace]
    check(body, *others, count=32, mean=zeros())


def test_a_view_of_a_larger_array_is_written_in_place() -> None:
    def make() -> tuple[Any, Any]:
        rows = np.zeros((3, 4))
        return rows, World(mean=None)

    (rows, eager), (own, served) = make(), make()
    eager.mean, served.mean = rows[1], own[1]
    compiled = mica.compile(lambda a: averaged_in_place(served, a), exact=True)
    for turn in range(8):
        same(compiled(x(turn)), averaged_in_place(eager, x(turn)))
        same(plain(own), plain(rows))


def test_no_warning_is_lost_where_numpy_raises() -> None:
    def body(w: Any, a: Tensor) -> Any:
        row = a.mean(0).double().numpy() * w.factor
        return torch.from_numpy(row / (row * w.factor))

    def zero(w: Any) -> None:
        w.factor = 0.0

    w = World(factor=1.0)
    compiled = mica.compile(lambda a: body(w, a))
    with np.errstate(all="raise"):
        for seed in range(4):
            compiled(x(seed))
        zero(w)
        with pytest.raises(FloatingPointError):
            compiled(x(0))


def test_a_state_of_errors_is_guarded() -> None:
    def body(_: Any, a: Tensor) -> Any:
        row = a.mean(0).double().numpy()
        return torch.from_numpy(row / (row - row))

    w = World()
    compiled = mica.compile(lambda a: body(w, a))
    with np.errstate(all="ignore"):
        for seed in range(4):
            same(compiled(x(seed)), body(w, x(seed)))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        compiled(x(0))


def item_set(w: Any, a: Tensor) -> Any:
    w.mean[1] = a.sum().item()
    return torch.from_numpy(w.mean) * 1


def slice_set(w: Any, a: Tensor) -> Any:
    w.mean[:] = a.mean(0).numpy()
    return torch.from_numpy(w.mean) * 1


def filled(w: Any, a: Tensor) -> Any:
    w.mean.fill(3.0)
    return torch.from_numpy(w.mean) + a


def out(w: Any, a: Tensor) -> Any:
    np.add(w.mean, a.mean(0).numpy(), out=w.mean)
    return torch.from_numpy(w.mean) * 1


def clipped(w: Any, a: Tensor) -> Any:
    w.mean = np.clip(w.mean + a.mean(0).numpy(), -1.0, 1.0)
    return torch.from_numpy(w.mean) * 1


def learned(w: Any, a: Tensor) -> Any:
    best = int(a[0].argmax())
    w.mean[best] += 0.1 * (a[0, best].item() - w.mean[best])
    return torch.tensor(w.mean)


def reduced(w: Any, a: Tensor) -> Any:
    rows = a.double().numpy()
    both = rows.mean(axis=0, keepdims=True), rows.mean((0, 1)), rows.mean()
    w.mean = 0.5 * w.mean + rows.mean(0) + both[0][0] + both[1] + both[2]
    w.mean = w.mean + np.sum(rows, axis=0, dtype=np.float32)
    return torch.from_numpy(w.mean), float(w.mean.max()), rows.argmax(1)


def cut_by_arrays(w: Any, a: Tensor) -> Any:
    rows = a.double().numpy()
    w.mean = rows.clip(rows[0] - 1, 1.0)[0]
    return torch.from_numpy(w.mean.clip(0)), np.clip(rows, 0, 1).tolist()


def looked_at(w: Any, a: Tensor) -> Any:
    w.mean = w.mean + 1
    return a if w.mean[0] > 3 else a * 2


def half(w: Any, a: Tensor) -> Any:
    w.mean = w.mean + a.mean(0).half().numpy()
    return torch.from_numpy(w.mean) * 1


def compared(w: Any, a: Tensor) -> Any:
    row = a.mean(0).half().numpy()
    return torch.from_numpy(0.1 <= row), torch.from_numpy(row == w.mean)


def of_bools(_: Any, a: Tensor) -> Any:
    positive = (a > 0).numpy()
    return torch.from_numpy(positive + positive), torch.from_numpy(positive * 2)


def mixed_types(w: Any, a: Tensor) -> Any:
    counts = (a > 0).sum(0).numpy()
    return torch.from_numpy(counts * 0.5), torch.from_numpy(counts / 2)


def powers(w: Any, a: Tensor) -> Any:
    row = a.double().abs().mean(0).numpy()
    return torch.from_numpy(row**0.5 + row**3 + 2.0**row)


def transposed(_: Any, a: Tensor) -> Any:
    both = a.numpy().T * 2
    return torch.from_numpy(both), both.flags.c_contiguous


def constant_grows(_: Any, a: Tensor) -> Any:
    total = np.ones(4, np.float32)
    total += a.mean(0).numpy()
    return torch.from_numpy(total)


def too_many_dims(_: Any, a: Tensor) -> Any:
    try:
        return torch.from_numpy(a.numpy() + np.ones(3, np.float32))
    except ValueError as error:
        return str(error)


def scalar_arrays(_: Any, a: Tensor) -> Any:
    total = a.sum().numpy()
    return total * 2, torch.from_numpy(a.numpy() * total)


def huge_ints(_: Any, a: Tensor) -> Any:
    counts = (a > 0).sum(0).numpy()
    return torch.from_numpy(counts * 2**40), torch.from_numpy(counts // 2)


@pytest.mark.parametrize(
    "body",
    [
        item_set,
        slice_set,
        filled,
        out,
        clipped,
        learned,
        reduced,
        cut_by_arrays,
        looked_at,
        half,
        compared,
        of_bools,
        mixed_types,
        powers,
        transposed,
        constant_grows,
        too_many_dims,
        scalar_arrays,
        huge_ints,
    ],
)
def test_what_is_not_followed_is_as_in_eager(body: Body) -> None:
    dtype = np.float16 if body is half else np.float64
    check(body, fill, replace, count=14, mean=zeros(dtype))


def test_arrays_that_were_returned_keep_their_numbers() -> None:
    w = World(mean=zeros())

    def program(a: Tensor) -> Any:
        w.mean = 0.5 * w.mean + a.mean(0).numpy()
        return w.mean

    compiled = mica.compile(program)
    arrays = [compiled(x(turn)) for turn in range(8)]
    copies = [array.copy() for array in arrays]
    compiled(x(9))
    arrays[2][:] = 100
    for i, (array, copy_) in enumerate(zip(arrays, copies, strict=True)):
        assert i == 2 or (array == copy_).all()


@pytest.mark.parametrize("make", [torch.from_numpy, torch.as_tensor])
@pytest.mark.parametrize("place", ["mean", "many", "books"])
def test_a_tensor_that_is_returned_is_in_the_arrays_memory(
    make: Any, place: str
) -> None:
    def array(w: Any) -> Any:
        kept = getattr(w, place)
        return kept if place == "mean" else kept[0]

    def body(w: Any, a: Tensor) -> Any:
        w.tensor = make(array(w))
        return w.tensor[1:], a * 2

    def fresh() -> World:
        mean = zeros()
        return World(mean=mean, many=[mean, 1], books={0: mean})

    eager, served = fresh(), fresh()
    compiled = mica.compile(lambda a: body(served, a), exact=True)
    for turn in range(6):
        want, got = body(eager, x(turn)), compiled(x(turn))
        array(eager)[:] = array(served)[:] = turn
        same(got, want)
        same(served.tensor, eager.tensor)
        served.tensor[2] = eager.tensor[2] = 7.0
        same(plain(array(served)), plain(array(eager)))


def test_a_step_that_trains_by_momentum_of_numpys() -> None:
    def step(w: Any, a: Tensor) -> Any:
        w.net.zero_grad()
        loss = w.net(a).pow(2).sum()
        loss.backward()
        w.mean = 0.9 * w.mean + w.net.weight.grad.numpy()
        with torch.no_grad():
            w.net.weight -= 0.01 * torch.from_numpy(w.mean)
        return loss.detach()

    torch.manual_seed(0)
    state = {"net": nn.Linear(4, 3), "mean": np.zeros((3, 4), np.float32)}
    assert check(step, count=14, **state) >= 9


def test_its_memory_may_be_a_tensors_of_the_state() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.mean *= 0.5
        return w.tensor + a

    def make() -> World:
        world = World(tensor=torch.ones(4))
        vars(world)["mean"] = world.tensor.numpy()
        return world

    eager, served = make(), make()
    compiled = mica.compile(lambda a: body(served, a))
    for turn in range(8):
        same(compiled(x(turn)), body(eager, x(turn)))
        same(served.tensor, eager.tensor)
