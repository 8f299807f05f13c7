"""Arrays that numpy draws, handed on to torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.two_worlds import drawn as x
from e2e.capture.two_worlds import with_grad
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)

Body = Callable[[Any, Tensor], Any]


class World:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.old = np.random.RandomState(0)
        self.weights = np.arange(1, 11) / 55.0
        self.scale = 1.0
        torch.manual_seed(0)
        self.embed = nn.Embedding(10, 4)
        self.kept: Any = None


def plain(value: Any) -> Any:
    """With arrays as lists, as `same` compares no arrays."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.strides, value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def states(world: World) -> Any:
    own = np.random.get_state()
    old = world.old.get_state()
    return (
        str(world.rng.bit_generator.state),
        [str(own[0]), plain(own[1]), *own[2:]],
        [str(old[0]), plain(old[1]), *old[2:]],
        plain(world.kept),
    )


def check(body: Body, count: int = 12, **options: Any) -> int:
    """Calls it in two worlds; returns the hits."""
    eager, served = World(), World()
    compiled = mica.compile(lambda a: body(served, a), **options)
    for seed in range(count):
        np.random.seed(seed)
        want = plain(body(eager, x(seed)))
        drew = states(eager)
        np.random.seed(seed)
        got = plain(compiled(x(seed)))
        same(got, want)
        same(states(served), drew)
    return report(compiled).hits


def uniform(_: World, a: Tensor) -> Any:
    return a + torch.from_numpy(np.random.rand(2, 4)).float()


def normal(_: World, a: Tensor) -> Any:
    return a + torch.from_numpy(np.random.randn(*a.shape).astype(np.float32))


def as_tensor(w: World, a: Tensor) -> Any:
    return a * torch.as_tensor(w.rng.normal(size=4), dtype=torch.float32)


def tensor(w: World, a: Tensor) -> Any:
    return a * torch.tensor(w.old.uniform(-1, 1, size=(2, 1)))


def order(_: World, a: Tensor) -> Any:
    return a[:, torch.tensor(np.random.permutation(4))]


def index(_: World, a: Tensor) -> Any:
    places = np.random.permutation(4)
    first = a[np.random.permutation(2)]
    return a[:, places], first[..., places[:3]], a[0][places[1:]], first


def negatives(w: World, a: Tensor) -> Any:
    picked = torch.LongTensor(np.random.choice(10, size=3, p=w.weights))
    return w.embed(picked) @ a[0]


def without_replacement(w: World, a: Tensor) -> Any:
    picked = np.random.choice(10, 4, replace=False)
    return w.embed(torch.from_numpy(picked)).sum() + a


def ints(w: World, a: Tensor) -> Any:
    return w.embed(torch.from_numpy(w.rng.integers(0, 10, size=(2, 3)))), a + 1


def of_an_array(w: World, a: Tensor) -> Any:
    return a[:, torch.from_numpy(w.old.permutation(np.arange(4)))]


def several(w: World, a: Tensor) -> Any:
    first = torch.from_numpy(np.random.rand(4))
    number = np.random.rand()
    second = torch.from_numpy(w.rng.random(4))
    return a * first + number * second - torch.from_numpy(np.random.rand(4))


def stacked(_: World, a: Tensor) -> Any:
    rows = [np.random.rand(4) for _ in range(2)]
    return a + torch.from_numpy(np.stack(rows)), torch.tensor(np.array(rows))


def views(_: World, a: Tensor) -> Any:
    all_of_it = np.random.rand(4, 4)
    return a * torch.from_numpy(all_of_it[1:3]), torch.from_numpy(all_of_it.T)


def mixed_up(_: World, a: Tensor) -> Any:
    factor = np.random.beta(0.4, 0.4)
    rows = torch.from_numpy(np.random.permutation(a.shape[0]))
    return factor * a + (1 - factor) * a[rows]


def scaled(w: World, a: Tensor) -> Any:
    w.scale *= 0.99
    return a + torch.from_numpy(0.5 + w.scale * np.random.randn(2, 4)).float()


def dropped(_: World, a: Tensor) -> Any:
    kept = (np.random.rand(2, 4) > 0.25).astype(np.float32)
    return a * torch.from_numpy(kept) / 0.75


def masked(w: World, a: Tensor) -> Any:
    return a.masked_fill(torch.from_numpy(w.rng.random((2, 4)) < 0.5), 0.0)


def picked(_: World, a: Tensor) -> Any:
    hidden = np.random.rand(4) < 0.4
    words = np.random.randint(0, 10, size=4)
    labels = np.where(hidden, words, -100)
    noise = np.where(hidden, np.zeros(4), np.random.randn(4))
    return torch.from_numpy(labels), a * torch.from_numpy(noise)


def returned(_: World, a: Tensor) -> Any:
    noise = np.random.rand(2, 4)
    return noise, torch.from_numpy(noise), a + torch.from_numpy(noise)


def kept(w: World, a: Tensor) -> Any:
    w.kept = [np.random.rand(3), np.random.randn(2).astype(np.float32)]
    return a * 2


def unused(_: World, a: Tensor) -> Any:
    np.random.rand(5)
    return a * 3


def trained(w: World, a: Tensor) -> Any:
    w.embed.zero_grad()
    picked = torch.from_numpy(np.random.randint(0, 10, size=2))
    loss = (w.embed(picked) * a).sum().pow(2)
    loss.backward()
    with torch.no_grad():
        w.embed.weight -= 0.01 * w.embed.weight.grad
    return loss.detach()


def in_place(_: World, a: Tensor) -> Any:
    noise = np.random.rand(2, 4)
    shown = torch.from_numpy(noise)
    shown.add_(a)
    return noise, shown * 2


def in_place_by_numpy(_: World, a: Tensor) -> Any:
    noise = np.random.rand(2, 4)
    shown = torch.from_numpy(noise)
    noise *= 2
    return shown + a, noise


FOLLOWED = [
    uniform,
    normal,
    as_tensor,
    tensor,
    order,
    index,
    negatives,
    without_replacement,
    ints,
    of_an_array,
    several,
    stacked,
    views,
    mixed_up,
    scaled,
    dropped,
    masked,
    picked,
    returned,
    kept,
    unused,
    trained,
    in_place,
    in_place_by_numpy,
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("body", FOLLOWED)
def test_each_hit_draws_an_array_anew(body: Body, exact: bool) -> None:
    assert check(body, exact=exact) >= 9


def test_weights_aside_a_draw_are_not_kept_frozen() -> None:
    def body(_: World, a: Tensor) -> Any:
        return a @ torch.from_numpy(np.random.rand(4, 3)).float()

    with torch.no_grad():
        assert check(body, frozen=True) >= 9


def read(_: World, a: Tensor) -> Any:
    noise = np.random.rand(4)
    return a * float(noise[0]) + noise.sum()


def walked(_: World, a: Tensor) -> Any:
    total = a
    for i in np.random.permutation(4):
        total = total + a[:, i : i + 1]
    return total


def listed(_: World, a: Tensor) -> Any:
    places = np.random.permutation(4).tolist()
    return a[:, places], places


def masks(_: World, a: Tensor) -> Any:
    return a[:, np.random.rand(4) < 0.5], a[np.array([[0, 1], [1, 0]])]


def set_by_index(_: World, a: Tensor) -> Any:
    a = a.clone()
    a[:, np.random.permutation(4)[:2]] = 0.0
    return a


def picked_otherwise(_: World, a: Tensor) -> Any:
    drawn = np.random.rand(2, 4)
    one = np.where(drawn < 0.5, 0.0, 1.0)
    places = np.where(drawn[0] < 0.5)[0].tolist()
    other = np.where(drawn, np.float32(1.0), drawn)
    return a * torch.from_numpy(one), places, torch.from_numpy(other)


def out(w: World, a: Tensor) -> Any:
    noise = np.zeros(4)
    w.rng.random(out=noise)
    return a + torch.from_numpy(noise)


def out_of_the_state(w: World, a: Tensor) -> Any:
    if w.kept is None:
        w.kept = np.zeros(4)
    noise = w.rng.random(out=w.kept)
    return a + torch.from_numpy(noise)


def by_code_in_python(w: World, a: Tensor) -> Any:
    return a[:, torch.from_numpy(w.rng.permutation(np.arange(4)))]


def swapped(_: World, a: Tensor) -> Any:
    places = np.arange(4)
    np.random.shuffle(places)
    return a[:, torch.from_numpy(places)]


def written(_: World, a: Tensor) -> Any:
    noise = np.random.rand(2, 4)
    shown = torch.from_numpy(noise)
    noise[0] = 1.0
    return shown + a, noise


def copied_to(_: World, a: Tensor) -> Any:
    noise = np.random.rand(2, 4)
    shown = torch.from_numpy(noise)
    np.copyto(noise, 2.0)
    return shown + a


def sorted_numbers(_: World, a: Tensor) -> Any:
    noise = np.random.rand(4)
    shown = torch.from_numpy(noise)
    noise.sort()
    return shown + a


def after_torch(_: World, a: Tensor) -> Any:
    shown = torch.from_numpy(np.random.rand(4)) * 2
    return a * float(shown.numpy()[1])


def other_sizes(w: World, a: Tensor) -> Any:
    w.scale += 1
    return torch.from_numpy(np.random.rand(int(w.scale) % 3 + 1)).sum() + a


def objects(_: World, a: Tensor) -> Any:
    words = np.random.choice(["a", "b"], size=3)
    return a, words.tolist()


def numbers_of_numpys(w: World, a: Tensor) -> Any:
    return a * float(w.rng.integers(0, 3)), np.random.choice(3)


@pytest.mark.parametrize(
    "body",
    [
        read,
        walked,
        listed,
        masks,
        picked_otherwise,
        set_by_index,
        out,
        out_of_the_state,
        by_code_in_python,
        swapped,
        written,
        copied_to,
        sorted_numbers,
        after_torch,
        other_sizes,
        objects,
        numbers_of_numpys,
    ],
)
def test_what_looks_into_one_is_as_in_eager(body: Body) -> None:
    check(body, 16)


def test_what_looks_into_one_ends_the_graph_at_the_draw() -> None:
    w = World()
    compiled = mica.compile(lambda a: read(w, a))
    with pytest.warns(mica.MicaWarning):
        for seed in range(8):
            compiled(x(seed))
    reasons = [refusal.text for refusal in report(compiled).refusals]
    assert any("numpy.ndarray" in reason for reason in reasons)


def test_a_run_that_is_discarded_draws_the_same_again() -> None:
    def body(_: World, a: Tensor) -> Any:
        noise = torch.from_numpy(np.random.rand(4))
        if (a * noise).sum() > 0:
            return a * noise
        return noise - a

    assert check(body, 24) >= 4


def test_a_draw_that_raises() -> None:
    w = World()

    def body(a: Tensor, weights: Any) -> Any:
        return a + torch.from_numpy(np.random.choice(4, 4, p=weights))

    compiled = mica.compile(body)
    good, bad = np.full(4, 0.25), np.full(4, 0.5)
    for weights in itertools.chain([good] * 4, [bad], [good] * 3, [bad]):
        if weights is bad:
            with pytest.raises(ValueError, match="sum to 1"):
                compiled(x(0), weights)
            continue
        np.random.seed(1)
        want = body(x(0), weights)
        np.random.seed(1)
        same(compiled(x(0), weights), want)
    assert w.kept is None


def test_results_of_two_calls_share_no_memory() -> None:
    compiled = mica.compile(lambda a: (np.random.rand(4), a + 1))
    arrays = [compiled(x(0))[0] for _ in range(6)]
    copies = [array.copy() for array in arrays]
    arrays[3][:] = 7
    for i, (array, copy) in enumerate(zip(arrays, copies, strict=True)):
        assert i == 3 or (array == copy).all()


def test_a_check_of_hits() -> None:
    w = World()
    with mica.stance("check"):
        compiled = mica.compile(lambda a: normal(w, a))
        for seed in range(4):
            compiled(x(seed))
    assert report(compiled).hits >= 2


def test_there_is_no_graph_of_torch_fx() -> None:
    compiled = mica.compile(lambda a: a + torch.from_numpy(np.random.rand(4)))
    for seed in range(3):
        compiled(x(seed))
    with pytest.raises(NotImplementedError, match="draws an array"):
        mica.to_fx(mica.records(compiled)[0])


@pytest.mark.once("torch.fx keeps the text of each graph")
def test_other_compilers_are_fed_what_is_drawn() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        del inputs
        return module

    with torch.no_grad():
        for body in (uniform, order, negatives, several, masked, returned):
            assert check(body, backend=backend) >= 9
