"""Deques of tensors that a program keeps, changes and reads."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import (
    Body,
    Step,
    check,
    drawn,
    with_grad,
    world,
)
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


def told(frames: Any) -> Any:
    """What is in it, as it is compared."""
    return [*frames], frames.maxlen, type(frames).__name__


def call(seed: int) -> Step:
    """Calls the program, and tells what it has kept, too."""

    def step(w: Any, program: Any) -> Any:
        return program(drawn(seed)), told(w.frames)

    return step


def calls(count: int) -> list[Step]:
    return [call(seed) for seed in range(count)]


def full(bound: int | None = 3) -> Any:
    return deque([torch.full((2, 4), float(i)) for i in range(3)], maxlen=bound)


def stacked(w: Any, a: Tensor) -> Any:
    w.frames.append(a * 1)
    return torch.stack(list(w.frames)).mean(0)


def joined(w: Any, a: Tensor) -> Any:
    w.frames.append(a)
    return torch.cat(tuple(w.frames), dim=1)


def walked(w: Any, a: Tensor) -> Any:
    w.frames.append(a + 1)
    total = torch.zeros_like(a)
    for age, frame in enumerate(reversed(w.frames)):
        total = total + frame * 0.5**age
    return total


def from_the_left(w: Any, a: Tensor) -> Any:
    w.frames.appendleft(a * 2)
    return w.frames[0] - w.frames[-1], len(w.frames)


def many(w: Any, a: Tensor) -> Any:
    w.frames.extend([a, a * 2])
    return sum(w.frames)


def many_from_the_left(w: Any, a: Tensor) -> Any:
    w.frames.extendleft([a, a * 2])
    return sum(w.frames)


def rotated(w: Any, a: Tensor) -> Any:
    w.frames.rotate(1)
    w.frames[0] = w.frames[0] + a
    return w.frames[0] * 2 + w.frames[-1]


def rotated_back(w: Any, a: Tensor) -> Any:
    w.frames.rotate(-2)
    w.frames.append(a)
    return [frame.sum() for frame in w.frames]


def popped(w: Any, a: Tensor) -> Any:
    w.frames.append(a * 3)
    oldest = w.frames.popleft()
    return oldest + w.frames[0]


def popped_last(w: Any, a: Tensor) -> Any:
    last = w.frames.pop()
    w.frames.append(last * 0.5 + a)
    return last


def inserted(w: Any, a: Tensor) -> Any:
    w.frames.pop()
    w.frames.insert(1, a * 1)
    return torch.stack([*w.frames]).sum(0)


def deleted(w: Any, a: Tensor) -> Any:
    del w.frames[0]
    w.frames.append(a)
    return w.frames[1] * 2


def turned(w: Any, a: Tensor) -> Any:
    w.frames.reverse()
    w.frames[1] = a
    return w.frames[0] - w.frames[2]


def refilled(w: Any, a: Tensor) -> Any:
    oldest = w.frames[0]
    w.frames.clear()
    w.frames.extend([a, oldest + a, oldest])
    return sum(w.frames)


def copied(w: Any, a: Tensor) -> Any:
    w.frames.append(a)
    other = w.frames.copy()
    other.append(a * 5)
    return told(other), w.frames[-1]


def measured(w: Any, a: Tensor) -> Any:
    w.frames.append(a)
    return a * len(w.frames) if len(w.frames) == w.frames.maxlen else a


def guarded(w: Any, a: Tensor) -> Any:
    while not w.frames or len(w.frames) < 3:
        w.frames.append(a)
    w.frames.append(a)
    return sum(w.frames)


def read_first(w: Any, a: Tensor) -> Any:
    before = torch.stack(list(w.frames)).sum(0)
    w.frames.append(before * 0.1 + a)
    return before + w.frames[-1]


BODIES = [
    stacked,
    joined,
    walked,
    from_the_left,
    many,
    many_from_the_left,
    rotated,
    rotated_back,
    popped,
    popped_last,
    inserted,
    deleted,
    turned,
    refilled,
    copied,
    measured,
    guarded,
    read_first,
]


@pytest.mark.parametrize("body", BODIES)
def test_a_full_deque_is_read_at_each_call(body: Body) -> None:
    bound = None if body is inserted else 3
    assert check(world(body, frames=full(bound)), *calls(12)) >= 6


@pytest.mark.parametrize("body", [popped, rotated, deleted, read_first])
def test_a_deque_without_a_bound(body: Body) -> None:
    check(world(body, frames=full(None)), *calls(8))


@pytest.mark.parametrize(
    "body", [stacked, joined, walked, from_the_left, many, measured, guarded]
)
@pytest.mark.parametrize("bound", [1, 2, 4])
def test_it_grows_to_its_bound_and_then_one_record_serves_it(
    body: Body, bound: int
) -> None:
    if body is guarded and bound < 3:
        bound = 3
    make = world(body, frames=deque(maxlen=bound))
    assert check(make, *calls(24)) >= 12


def test_one_record_is_enough_once_it_is_full() -> None:
    w: Any = world(stacked, frames=deque(maxlen=4))()
    compiled = mica.compile(w.program)
    for seed in range(12):
        compiled(drawn(seed))
    before = mica.explain(compiled).hits
    for seed in range(20):
        compiled(drawn(seed))
    assert mica.explain(compiled).hits - before == 20


def test_frames_that_are_dropped_when_there_are_too_many() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(a * 1)
        if len(w.frames) > 3:
            w.frames.popleft()
        return sum(w.frames)

    assert check(world(body, frames=deque()), *calls(30)) >= 12


def refill(w: Any, _: Any) -> Any:
    for i in range(3):
        w.frames.append(torch.full((2, 4), -float(i)))
    return told(w.frames)


def empty(w: Any, _: Any) -> Any:
    w.frames.clear()
    return told(w.frames)


def replace(w: Any, _: Any) -> Any:
    w.frames = full()
    return told(w.frames)


def bound_otherwise(w: Any, _: Any) -> Any:
    w.frames = deque(w.frames, maxlen=5)
    return told(w.frames)


def to_list(w: Any, _: Any) -> Any:
    w.frames = deque([torch.ones(2, 4), 2.0, torch.ones(1, 4)], maxlen=3)
    return told(w.frames)


def repeat(w: Any, _: Any) -> Any:
    w.frames.extend([torch.ones(2, 4)] * 3)
    return told(w.frames)


@pytest.mark.parametrize("body", [stacked, walked, many, read_first])
@pytest.mark.parametrize(
    "other", [refill, empty, replace, bound_otherwise, repeat]
)
def test_others_change_it_between_calls(body: Body, other: Step) -> None:
    if body is read_first and other is empty:
        other = refill
    steps = [*calls(6), other, *calls(4), other, *calls(6)]
    check(world(body, frames=full()), *steps)


def test_what_is_in_it_may_be_of_another_kind() -> None:
    steps = [*calls(6), to_list, *calls(6), replace, *calls(4)]
    check(world(walked, frames=full()), *steps)


def test_two_names_for_one_deque() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(a * 1)
        w.others.append(a * 2)
        return sum(w.frames) - w.others[0]

    def make() -> Any:
        new = world(body, frames=full())()
        new.others = new.frames
        return new

    def part(w: Any, _: Any) -> Any:
        w.others = w.frames.copy()
        return told(w.others)

    def join(w: Any, _: Any) -> Any:
        w.others = w.frames
        return told(w.others)

    steps = [*calls(6), part, *calls(6), join, *calls(6)]
    assert check(make, *steps) >= 6


def test_one_tensor_in_two_of_them() -> None:
    def body(w: Any, a: Tensor) -> Any:
        new = a + 1
        w.frames.append(new)
        w.others.append(new)
        w.frames[-1].mul_(2)
        return w.others[0] + w.frames[0], w.others[-1] is w.frames[-1]

    def make() -> Any:
        return world(body, frames=full(), others=full())()

    assert check(make, *calls(12)) >= 5


def test_tensors_in_it_are_written_in_place() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames[0].add_(a)
        w.frames.rotate(1)
        return w.frames[0] * 2

    assert check(world(body, frames=full()), *calls(10)) >= 6


def test_an_argument_is_a_deque() -> None:
    def program(a: Tensor, frames: Any) -> Any:
        frames.append(a * 1)
        return sum(frames)

    def make() -> Any:
        new = world(stacked, frames=full())()
        new.program = program
        return new

    def step(seed: int) -> Step:
        def take(w: Any, run: Any) -> Any:
            return run(drawn(seed), w.frames), told(w.frames)

        return take

    def another(seed: int) -> Step:
        def take(w: Any, run: Any) -> Any:
            frames = full()
            return run(drawn(seed), frames), told(frames)

        return take

    assert check(make, *map(step, range(10))) >= 6
    assert check(make, *map(another, range(10))) >= 6


def test_a_deque_that_the_program_makes() -> None:
    def body(w: Any, a: Tensor) -> Any:
        frames: Any = deque(maxlen=2)
        for row in a:
            frames.append(row * 2)
        frames.appendleft(a[0])
        w.frames = deque([a, frames], maxlen=7)
        return frames, told(deque([a, a + 1])), deque(maxlen=1)

    def step(seed: int) -> Step:
        def take(w: Any, program: Any) -> Any:
            made, own, none = program(drawn(seed))
            kept = w.frames
            return [told(made), own, told(none), kept[0], told(kept[1])]

        return take

    assert check(world(body, frames=None), *map(step, range(6))) >= 5


def test_a_deque_that_holds_itself() -> None:
    def body(_: Any, a: Tensor) -> Any:
        frames: Any = deque([a * 2])
        frames.append(frames)
        return frames

    def step(w: Any, program: Any) -> Any:
        made = program(drawn(0))
        return made[0], made[1] is made, len(made)

    check(world(body), *[step] * 4)


def test_pairs_of_a_deque() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append((a.clone(), a.sum()))
        total: Any = 0.0
        for _, reward in reversed(w.frames):
            total = reward + 0.9 * total
        return total * w.frames[0][0]

    def step(seed: int) -> Step:
        def take(w: Any, program: Any) -> Any:
            return program(drawn(seed)), [[*pair] for pair in w.frames]

        return take

    make = world(body, frames=deque(maxlen=3))
    assert check(make, *map(step, range(20))) >= 10


def test_gradients_of_what_is_kept() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(w.net(a).detach())
        loss = (w.net(a) - torch.stack(list(w.frames)).mean(0)).pow(2).mean()
        w.net.zero_grad()
        loss.backward()
        return loss.detach(), [p.grad.clone() for p in w.net.parameters()]

    def make() -> Any:
        new = world(body, frames=deque(maxlen=3))()
        torch.manual_seed(0)
        new.net = nn.Linear(4, 4)
        return new

    assert check(make, *calls(20)) >= 10


def test_a_graph_of_autograds_that_is_kept() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(w.net(a))
        return sum(frame.sum() for frame in w.frames)

    def make() -> Any:
        new = world(body, frames=deque(maxlen=2))()
        torch.manual_seed(0)
        new.net = nn.Linear(4, 4)
        return new

    def step(seed: int) -> Step:
        def take(w: Any, program: Any) -> Any:
            loss = program(drawn(seed))
            w.net.zero_grad()
            if seed % 4 == 3:
                loss.backward()
                w.frames.clear()
            grads = [p.grad for p in w.net.parameters()]
            return loss.detach(), [g.clone() for g in grads if g is not None]

        return take

    check(make, *map(step, range(12)))


def test_numbers_that_are_used_exactly_end_in_pieces() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(a.sum().item())
        return a * hash(tuple(w.frames)) % 7 if len(w.frames) > 2 else a

    w: Any = world(body, frames=deque(maxlen=4))()
    check(world(body, frames=deque(maxlen=4)), *calls(20))
    compiled = mica.compile(w.program)
    for seed in range(40):
        compiled(drawn(seed))
    assert len(mica.explain(compiled).graphs) <= 16


def test_exceptions_leave_eagers_deque() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(a * 1)
        if w.fails:
            raise ValueError("no")
        return sum(w.frames)

    def fail(w: Any, program: Any) -> Any:
        w.fails = True
        with pytest.raises(ValueError, match="no"):
            program(drawn(9))
        w.fails = False
        return told(w.frames)

    steps = [*calls(5), fail, *calls(5), fail, *calls(4)]
    assert check(world(body, frames=full(), fails=False), *steps) >= 5


@pytest.mark.parametrize("kept", [[1.0], (torch.ones(2),), {"a": 1}])
def test_items_that_are_in_another_place_too(kept: Any) -> None:
    """What is known of such an item says nothing of the deque's length."""

    def body(w: Any, a: Tensor) -> Any:
        return a * 2, w.kept, len(w.frames)

    def add(w: Any, _: Any) -> Any:
        w.frames.append(w.kept)
        return len(w.frames)

    def make() -> Any:
        new = world(body, kept=kept)()
        new.frames = deque([new.kept, 2])
        return new

    check(make, *calls(3), add, *calls(2), add, add, *calls(2))


def test_who_sees_an_item_end_finds_the_others() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(a * 1)
        return sum(w.frames)

    def step(seed: int) -> Step:
        def take(w: Any, program: Any) -> Any:
            seen: list[int] = []
            oldest = w.frames[0]
            weakref.finalize(oldest, lambda: seen.append(len(w.frames)))
            del oldest
            return program(drawn(seed)), seen

        return take

    def apart() -> Any:
        new = world(body, frames=deque(maxlen=3))()
        for i in range(3):
            new.frames.append(torch.full((2, 4), float(i)))
        return new

    check(apart, *map(step, range(8)))


def test_records_let_go_of_a_deque_that_was_replaced() -> None:
    w: Any = world(stacked, frames=full())()
    compiled = mica.compile(w.program)
    for seed in range(60):
        if seed % 10 == 0:
            w.frames = full()
        compiled(drawn(seed))
    assert len(mica.explain(compiled).graphs) <= 16
    assert mica.explain(compiled).hits >= 20


def test_a_deque_of_a_users_class_stays_eagers() -> None:
    class Frames(deque[Tensor]):
        def append(self, item: Tensor) -> None:
            super().append(item * 2)

    def make() -> Any:
        return world(stacked, frames=Frames(full(), maxlen=3))()

    check(make, *calls(8))


def test_frames_are_guarded_by_sizes() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.frames.append(a.sum(dim=0))
        return sum(w.frames)

    def step(seed: int) -> Step:
        def take(w: Any, program: Any) -> Any:
            return program(torch.ones(seed % 5 + 1, 4) * seed), told(w.frames)

        return take

    frames = deque([torch.zeros(4)] * 3, maxlen=3)
    check(world(body, frames=frames), *map(step, range(15)))
