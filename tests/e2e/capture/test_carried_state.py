"""State that a program reads and then sets: it is new at each call."""

from __future__ import annotations

import copy
import gc
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from torch import nn

import mica


class State(nn.Module):
    """A net with state of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("ema", torch.zeros(4))
        self.hidden: Any = None
        self.pair: Any = (torch.zeros(3, 4), torch.ones(3, 4))
        self.steps = 0
        self.total = 0.25
        self.first = True
        self.table: dict[Any, Any] = {"n": 3, "kept": None, 7: None}
        self.log: list[Any] = []
        self.recent: deque[Any] = deque(maxlen=2)
        self.names: set[str] = set()


def state_of(module: State) -> dict[str, Any]:
    plain = {k: v for k, v in vars(module).items() if not k.startswith("_")}
    plain["recent"] = list(module.recent)
    return {**plain, **dict(module.named_buffers())}


def beside(
    forward: Callable[..., Any],
    hits: int,
    captures: int,
    calls: int = 6,
    check: bool = True,
) -> tuple[State, Any]:
    """Runs a net with this forward(), compiled, beside the plain one."""
    Net = type("Net", (State,), {"forward": forward})
    torch.manual_seed(0)
    mine = Net().eval()
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine)
    for seed in range(calls):
        same(compiled(x(seed)), plain(x(seed)))
        if check:
            same(state_of(mine), state_of(plain))
    told = report(compiled)
    assert (told.hits, told.captures) == (hits, captures), str(told)
    return mine, compiled


# ---- Tensors.


def test_a_hidden_state_that_begins_as_none():
    def forward(self, a):
        h = self.fc(a)
        if self.hidden is not None:
            h = torch.tanh(h + self.hidden)
        self.hidden = h
        return h * 2

    # One record for None, one for any tensor like these.
    beside(forward, hits=4, captures=2)


def test_a_hidden_state_of_two_tensors():
    def forward(self, a):
        h, c = self.pair
        c = c * 0.5 + self.fc(a)
        h = torch.tanh(c) + h
        self.pair = (h, c)
        return h

    beside(forward, hits=4, captures=2)


def test_a_buffer_that_is_replaced():
    def forward(self, a):
        self.ema = self.ema * 0.9 + a.mean(0) * 0.1
        return a - self.ema

    beside(forward, hits=4, captures=2)


def test_a_swap():
    def forward(self, a):
        first, second = self.pair
        self.pair = (second, first)
        return a + first

    mine, _ = beside(forward, hits=4, captures=2)
    first, second = mine.pair
    assert first is not second


def test_what_is_kept_is_the_argument_itself():
    def forward(self, a):
        before = self.hidden
        self.hidden = a
        return a if before is None else a + before

    mine, compiled = beside(forward, hits=4, captures=2)
    given = x(11)
    compiled(given)
    assert mine.hidden is given


def test_state_that_is_also_the_argument_is_another_record():
    def forward(self, a):
        before = self.hidden
        self.hidden = a * 2
        return a if before is None else a + before

    mine, compiled = beside(forward, hits=4, captures=2)
    held = mine.hidden
    same(compiled(held), held * 2)
    assert report(compiled).captures == 3


def test_state_of_another_shape_is_another_record():
    def forward(self, a):
        before = self.hidden
        self.hidden = a
        return a if before is None else a + before.sum()

    mine, compiled = beside(forward, hits=4, captures=2)
    want = x(1) + x(5).sum()
    same(compiled(x(1)), want)
    mine.hidden = torch.ones(2)
    same(compiled(x(1)), x(1) + 2)
    assert report(compiled).captures == 3
    same(compiled(x(1)), x(1) * 1 + x(1).sum())
    assert report(compiled).captures == 3


def test_a_reset_between_the_calls():
    def forward(self, a):
        self.hidden = a if self.hidden is None else self.hidden * 0.5 + a
        return self.hidden + 1

    mine, compiled = beside(forward, hits=4, captures=2)
    mine.hidden = None
    same(compiled(x(1)), x(1) + 1)
    same(compiled(x(2)), x(1) * 0.5 + x(2) + 1)
    same(compiled(x(3)), (x(1) * 0.5 + x(2)) * 0.5 + x(3) + 1)
    assert report(compiled).captures in (2, 3)


def test_no_old_state_is_kept_alive():
    def forward(self, a):
        self.hidden = a if self.hidden is None else self.hidden + a
        return a * 2

    mine, compiled = beside(forward, hits=4, captures=2)
    for seed in range(3):
        kept = weakref.ref(mine.hidden)
        compiled(x(seed))
        gc.collect()
        assert kept() is None


class Cell:
    def __init__(self, hidden: torch.Tensor) -> None:
        self.hidden = hidden


def test_state_of_arguments_that_go_is_not_kept_alive():
    def step(cell, a):
        cell.hidden = cell.hidden * 0.5 + a
        return cell.hidden.sum()

    compiled = mica.compile(step)
    kept = []
    for seed in range(8):
        mine, theirs = Cell(x(seed)), Cell(x(seed))
        same(compiled(mine, x(seed + 1)), step(theirs, x(seed + 1)))
        same(mine.hidden, theirs.hidden)
        kept.append(weakref.ref(mine.hidden))
    del mine
    gc.collect()
    assert sum(hidden() is not None for hidden in kept) == 0
    assert report(compiled).hits == 7, str(report(compiled))


def test_state_that_others_replace_is_not_kept_alive():
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = Cell(x())

        def forward(self, a):
            self.cell.hidden = self.cell.hidden * 0.5 + a
            return self.cell.hidden.sum()

    mine, theirs = Held(), Held()
    compiled = mica.compile(mine)
    kept = []
    for seed in range(40):
        mine.cell, theirs.cell = Cell(x(seed)), Cell(x(seed))
        same(compiled(x(seed + 1)), theirs(x(seed + 1)))
        same(mine.cell.hidden, theirs.cell.hidden)
        kept.append(weakref.ref(mine.cell.hidden))
    mine.cell = None
    gc.collect()
    assert sum(hidden() is not None for hidden in kept) <= 2


def test_a_failed_call_leaves_the_state():
    def forward(self, a):
        self.steps += 1
        self.hidden = a if self.hidden is None else self.hidden + a
        if a.shape[0] == 1:
            raise ValueError("one")
        return a

    mine, compiled = beside(forward, hits=4, captures=2)
    with pytest.raises(ValueError, match="one"):
        compiled(x(0, 1, 4))
    assert mine.steps == 7


def test_two_names_for_one_tensor():
    def forward(self, a):
        if self.hidden is None:
            self.hidden = a * 2
            self.table["kept"] = self.hidden
        y = self.hidden + self.table["kept"]
        self.hidden = self.table["kept"] = y * 0.5
        return y + a

    mine, compiled = beside(forward, hits=3, captures=3)
    assert mine.hidden is mine.table["kept"]
    mine.table["kept"] = mine.hidden.clone()
    want = mine.hidden * 2 + x(3)
    same(compiled(x(3)), want)


def test_a_global_and_a_closure():
    held = {"outer": torch.zeros(4)}
    total = torch.zeros(3, 4)

    def f(a):
        nonlocal total
        total = total + a
        held["outer"] = held["outer"] + a.sum(0)
        return total * held["outer"]

    compiled = mica.compile(f)
    sums = torch.zeros(3, 4)
    for seed in range(6):
        sums = sums + x(seed)
        same(compiled(x(seed)), sums * sums.sum(0))
        same(total, sums)
    assert report(compiled).hits == 4, str(report(compiled))


# ---- Numbers and flags.


def test_a_counter_never_makes_a_record():
    def forward(self, a):
        self.steps += 1
        self.table["n"] += 2
        self.total = self.total - 0.5
        return self.fc(a)

    mine, _ = beside(forward, hits=5, captures=1)
    assert (mine.steps, mine.table["n"], mine.total) == (6, 15, -2.75)


def test_a_counter_that_is_counted_twice_in_a_call():
    def forward(self, a):
        for _ in range(3):
            self.steps += 1
        self.steps = self.steps - 1
        return a + 1

    mine, _ = beside(forward, hits=5, captures=1)
    assert mine.steps == 12


def test_counters_in_globals_and_closures():
    scope: dict[str, Any] = {}
    exec(
        "n = 0\n"
        "def make():\n"
        "    m = 10\n"
        "    def f(a):\n"
        "        global n\n"
        "        nonlocal m\n"
        "        n += 1\n"
        "        m -= 2\n"
        "        return a * 2\n"
        "    return f, lambda: m\n",
        scope,
    )
    f, get = scope["make"]()
    compiled = mica.compile(f)
    for seed in range(5):
        same(compiled(x(seed)), x(seed) * 2)
    assert (scope["n"], get()) == (5, 0)
    assert (report(compiled).hits, report(compiled).captures) == (4, 1)


@pytest.mark.parametrize("early", [False, True])
def test_a_counter_that_is_also_read_is_guarded(early):
    def forward(self, a):
        if early and self.steps > 100:
            return a
        self.steps += 1
        return a * self.steps

    net = type("Net", (State,), {"forward": forward})()
    compiled = mica.compile(net)
    for step in range(1, 6):
        same(compiled(x(step)), x(step) * step)
        assert net.steps == step
    net.steps = 3
    same(compiled(x(4)), x(4) * 4)
    assert net.steps == 4


def test_a_counter_of_another_type():
    def forward(self, a):
        self.steps += 1
        return a + 1

    mine, compiled = beside(forward, hits=5, captures=1)
    mine.steps = 2.5
    compiled(x(0))
    assert mine.steps == 3.5
    mine.steps = torch.ones(2)
    compiled(x(0))
    same(mine.steps, torch.full((2,), 2.0))
    mine.steps = True
    compiled(x(0))
    assert mine.steps == 2 and type(mine.steps) is int


def test_a_sum_that_is_set_to_something_else_after():
    def forward(self, a):
        self.steps += 1
        self.steps = 6
        return a + 1

    net = type("Net", (State,), {"forward": forward})()
    net.steps = 5
    compiled = mica.compile(net)
    for _ in range(4):
        compiled(x(0))
        assert net.steps == 6
        net.steps = 1


def test_a_flag_is_a_record_for_each_of_its_values():
    def forward(self, a):
        if self.first:
            self.first = False
            return a + 1
        return a - 1

    mine, compiled = beside(forward, hits=4, captures=2)
    mine.first = True
    same(compiled(x(0)), x(0) + 1)
    assert mine.first is False


def test_a_mean_of_losses_that_is_a_float():
    def forward(self, a):
        self.total = 0.9 * self.total + 0.1 * a.mean().item()
        return a - 1

    beside(forward, hits=4, captures=2)


# ---- Containers.


def test_a_list_that_grows():
    def forward(self, a):
        self.log.append(self.fc(a))
        self.log.extend([a, "seen"])
        return a * 2

    mine, _ = beside(forward, hits=5, captures=1)
    assert len(mine.log) == 18


def test_a_list_that_is_emptied_first():
    def forward(self, a):
        self.log.clear()
        for i in range(3):
            self.log.append((i, a * i))
        return a * 2

    mine, _ = beside(forward, hits=5, captures=1)
    assert len(mine.log) == 3


def test_a_list_that_is_read_before():
    def forward(self, a):
        self.log.append(a)
        return a * len(self.log)

    net = type("Net", (State,), {"forward": forward})()
    compiled = mica.compile(net)
    for n in range(1, 6):
        same(compiled(x(n)), x(n) * n)
        assert len(net.log) == n


def test_items_of_lists_and_dicts():
    def forward(self, a):
        self.log[1] = a + 1
        self.table["kept"] = a + 2
        self.table[7] = a + 3
        self.table["new"] = a.shape[0]
        return a * 2

    Net = type("Net", (State,), {"forward": forward})
    mine, plain = Net(), Net()
    mine.log, plain.log = [1, 2, 3], [1, 2, 3]
    plain.load_state_dict(mine.state_dict())
    compiled = mica.compile(mine)
    for seed in range(4):
        same(compiled(x(seed)), plain(x(seed)))
        same(state_of(mine), state_of(plain))
    assert report(compiled).hits == 3, str(report(compiled))
    mine.log = [1]
    with pytest.raises(IndexError):
        compiled(x(0))


def test_a_list_shorter_than_it_was():
    store = [0, 0, 0]

    def f(a):
        store[2] = a
        return a + 1

    compiled = mica.compile(f)
    compiled(x(0))
    compiled(x(1))
    assert report(compiled).hits == 1
    del store[1:]
    with pytest.raises(IndexError):
        compiled(x(2))


def test_a_deque_and_a_set():
    def forward(self, a):
        self.recent.append(a + 1)
        self.names.add("seen")
        self.names.discard("lost")
        return a * 2

    mine, _ = beside(forward, hits=5, captures=1)
    assert len(mine.recent) == 2 and mine.names == {"seen"}


def test_what_is_appended_may_change_later():
    def forward(self, a):
        item = [a]
        self.log.append(item)
        item.append(a + 1)
        both = [a + 2]
        self.log.extend(both)
        both.append(None)
        return a * 2

    beside(forward, hits=5, captures=1)


def test_a_change_that_is_not_known_beside_one_that_is():
    def forward(self, a):
        self.log.sort()
        self.log.append(a.shape[0])
        return a * 2

    net = type("Net", (State,), {"forward": forward})()
    plain = type("Net", (State,), {"forward": forward})()
    net.log, plain.log = [5, 1, 9], [5, 1, 9]
    compiled = mica.compile(net)
    for seed in range(5):
        same(compiled(x(seed)), plain(x(seed)))
        assert net.log == plain.log


def test_a_list_that_is_an_argument():
    def f(a, out):
        out.append(a + 1)
        return a

    compiled = mica.compile(f)
    for seed in range(4):
        mine: list[Any] = []
        compiled(x(seed), mine)
        same(mine, [x(seed) + 1])


def test_hooks_that_keep_what_they_see():
    seen: list[torch.Tensor] = []
    by_name: dict[str, torch.Tensor] = {}
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    net[0].register_forward_hook(lambda m, i, o: seen.append(o))

    def keep(module, given, made):
        by_name["relu"] = made.detach()

    net[1].register_forward_hook(keep)
    plain = copy.deepcopy(nn.Sequential(net[0], net[1]))
    for module in plain:
        module._forward_hooks.clear()
    compiled = mica.compile(net)
    for seed in range(4):
        y = compiled(x(seed))
        same(y, plain(x(seed)))
        same(seen[-1], plain[0](x(seed)))
        same(by_name["relu"], y)
    assert len(seen) == 4
    assert report(compiled).hits == 3, str(report(compiled))


def test_an_export_refuses_it(tmp_path):
    def forward(self, a):
        self.hidden = a if self.hidden is None else self.hidden + a
        return a

    _, compiled = beside(forward, hits=4, captures=2)
    with pytest.raises(NotImplementedError, match="hidden"):
        mica.export(compiled, (x(0),), tmp_path / "net")


def test_a_check_of_hits_does_each_effect_once():
    total = 0

    def make(net):
        def f(a):
            nonlocal total
            total += 1
            net.steps += 1
            net.hidden = a if net.hidden is None else net.hidden + a
            net.log.append(a + 1)
            return net.hidden * 2

        return f

    mine, plain = State(), State()
    compiled, eager = mica.compile(make(mine)), make(plain)
    for seed in range(3):
        same(compiled(x(seed)), eager(x(seed)))
    hits = report(compiled).hits
    with mica.stance("check"):
        for seed in range(3, 6):
            same(compiled(x(seed)), eager(x(seed)))
            plain.load_state_dict(mine.state_dict())
            same(state_of(mine), state_of(plain))
    assert report(compiled).hits > hits
    assert (mine.steps, len(mine.log), total) == (6, 6, 12)
