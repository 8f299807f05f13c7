"""Programs that call themselves end as deep as they do eagerly."""

import threading

import pytest
import torch

import mica


def endless(x, depth):
    """Calls the compiled callable that it is, with a graph break before."""
    print(end="")
    depth.append(len(depth))
    return compiled[0](x + 1, depth) * 2


compiled = [endless]


def deepest(run):
    """How deep it got before it raised."""
    depth = []
    with pytest.raises(RecursionError):
        run(torch.ones(2), depth)
    return len(depth)


@pytest.mark.once("Python frees what so deep a stack held when it likes")
@pytest.mark.parametrize("in_thread", [False, True])
def test_endless_calls_raise_what_they_raise_eagerly(in_thread):
    got = []

    def program():
        compiled[0] = mica.compile(endless)
        for _ in range(3):
            got.append(deepest(compiled[0]))
        compiled[0] = endless
        got.append(deepest(endless))

    if in_thread:
        thread = threading.Thread(target=program)
        thread.start()
        thread.join()
    else:
        program()
    assert len(got) == 4
    # What stands between two levels counts, too.
    assert all(got[3] / 4 < depth <= got[3] for depth in got[:3]), got


def test_deep_calls_that_end_are_right():
    def countdown(x, n):
        if n == 0:
            return x
        print(end="")
        return compiled[0](x + 1, n - 1) * 2

    x = torch.ones(2)
    compiled[0] = countdown
    want = countdown(x, 9)
    compiled[0] = mica.compile(countdown)
    for _ in range(3):
        assert torch.equal(compiled[0](x, 9), want)
    compiled[0] = None
