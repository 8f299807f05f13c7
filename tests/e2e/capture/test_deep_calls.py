"""Programs that call themselves end as deep as they do eagerly."""

import decimal
import threading

import pytest
import torch

import mica

HALF = {"v": decimal.Decimal("2.5")}
ROWS = torch.eye(3) * 2
DEPTH = []


class Kept:
    def __init__(self, x):
        self.x = x


make = [Kept]


def program(x):
    """Runs in pieces; the last of them makes a Kept, or calls the program."""
    DEPTH.append(0)
    y = torch.cat([x, x], -1)[..., ::2]
    text = f"{y.sum():.2f}"
    y = y + ("." in text)
    y = y + ROWS[int(float(HALF["v"] * HALF["v"] / 3)) % 3, :].sum()
    return make[0](y), text, y


def deepest(run):
    """How deep it gets before it raises."""
    DEPTH.clear()
    make[0] = run
    with pytest.raises(RecursionError):
        run(torch.ones(3))
    make[0] = Kept
    return len(DEPTH)


def find_depths(depths):
    compiled = mica.compile(program, exact=True)
    for _ in range(3):
        compiled(torch.ones(3))
    depths += [deepest(compiled), deepest(compiled), deepest(program)]


@pytest.mark.once("Python frees what so deep a stack held when it likes")
@pytest.mark.parametrize("in_thread", [False, True])
def test_endless_calls_raise_what_they_raise_eagerly(in_thread):
    depths = []
    if in_thread:
        thread = threading.Thread(target=find_depths, args=(depths,))
        thread.start()
        thread.join()
    else:
        find_depths(depths)
    # What stands between two levels counts, too.
    assert all(depths[2] / 4 < one <= depths[2] for one in depths[:2]), depths


def test_deep_calls_that_end_are_right():
    compiled = []

    def countdown(x, n):
        if n == 0:
            return x
        print(end="")
        return compiled[0](x + 1, n - 1) * 2

    x = torch.ones(2)
    compiled.append(countdown)
    want = countdown(x, 9)
    compiled[0] = mica.compile(countdown)
    for _ in range(3):
        assert torch.equal(compiled[0](x, 9), want)
