"""Writes into a part of a large buffer: where it is, with nothing copied."""

import copy

import pytest
import torch
import torch._dynamo

import mica


class Cache(torch.nn.Module):
    """Rows of a state, written by `write` and read behind that."""

    def __init__(self, write, num_layers=1):
        super().__init__()
        self.write = write
        for i in range(num_layers):
            self.register_buffer(f"rows{i}", torch.zeros(2, 512, 8))

    def forward(self, x, at):
        for rows in self.buffers():
            self.write(rows, x, at)
            scores = torch.softmax(x @ rows.mT, -1)
            x = (scores @ rows).tanh() + x
        return x


def copied(rows, x, at):
    rows.index_copy_(1, at, x)


def added(rows, x, at):
    rows.index_add_(1, at, x)


def filled(rows, x, at):
    rows.index_fill_(1, at - 512, 0.5)


def put(rows, x, at):
    rows[:, at] = x


def put_at_once(rows, x, at):
    rows.index_put_((torch.arange(2)[:, None], at[None]), x)


def accumulated(rows, x, at):
    rows.index_put_((torch.arange(2)[:, None], at[None]), x, accumulate=True)


def scattered(rows, x, at):
    rows.scatter_(1, at[None, :, None].expand(2, -1, 8), x)


def sliced(rows, x, at):
    rows[:, 3:5] = x
    rows[:, 4:6] += x * at.sum()


WRITES = [
    copied,
    added,
    filled,
    put,
    put_at_once,
    accumulated,
    scattered,
    sliced,
]


def assert_no_copy(fn):
    """Its graph needs less memory than one buffer has."""
    plan = mica.explain(fn).details("plan")
    assert "take back" in plan
    assert int(plan.split("arena_bytes=")[1].split()[0]) < 2 * 512 * 8 * 4


@pytest.mark.parametrize("num_layers", [1, 6])
@pytest.mark.parametrize("write", WRITES)
def test_rows_are_written_where_they_are(write, num_layers):
    twin = Cache(write, num_layers)
    model = copy.deepcopy(twin)
    compiled = mica.compile(model)
    addresses = [b.data_ptr() for b in model.buffers()]
    ahead = model.rows0._version - twin.rows0._version
    for i in range(5):
        x, at = torch.randn(2, 2, 8), torch.tensor([i, 9 - i])
        torch.testing.assert_close(compiled(x, at), twin(x, at))
        for own, other in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(own, other)
            assert own._version == other._version + ahead
    assert [b.data_ptr() for b in model.buffers()] == addresses
    assert mica.explain(compiled).hits == 4
    if write is not filled:  # Its index may count from the end.
        assert_no_copy(compiled)


def test_a_run_that_is_discarded_has_written_nothing():
    class Capped(Cache):
        def forward(self, x, at):
            result = super().forward(x, at)
            if self.rows0.sum() > 100:
                self.rows0[:, :3] = 0
                return result * 2
            return result

    twin = Capped(copied)
    model = copy.deepcopy(twin)
    compiled = mica.compile(model)
    for i in range(12):
        x, at = torch.full((2, 2, 8), 0.5 * i), torch.tensor([i, i + 1])
        torch.testing.assert_close(compiled(x, at), twin(x, at))
        torch.testing.assert_close(model.rows0, twin.rows0)


def test_an_index_that_is_out_of_range_leaves_all_as_it_was():
    twin = Cache(copied, 6)
    model = copy.deepcopy(twin)
    compiled = mica.compile(model)
    for at in ([0, 1], [2, 3], [4, 512], [5, 6]):
        x, index = torch.randn(2, 2, 8), torch.tensor(at)
        try:
            twin(x, index)
        except IndexError as error:
            with pytest.raises(type(error)):
                compiled(x, index)
        else:
            compiled(x, index)
        for own, other in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(own, other)


def test_who_is_called_meanwhile_sees_what_eager_shows():
    seen = []

    @mica.annotate(kind="host")
    def look(model):
        seen.append(model.rows0.sum().item())

    class Watched(Cache):
        def forward(self, x, at):
            look(self)
            result = super().forward(x, at)
            look(self)
            return result

    twin = Watched(copied)
    model = copy.deepcopy(twin)
    compiled = mica.compile(model)
    for i in range(4):
        x, at = torch.randn(2, 2, 8), torch.tensor([i, i + 1])
        seen.clear()
        want = twin(x, at)
        expected = list(seen)
        seen.clear()
        torch.testing.assert_close(compiled(x, at), want)
        torch.testing.assert_close(seen, expected)


def test_a_view_of_the_old_rows_that_is_returned_shows_the_new_ones():
    class Shown(Cache):
        def forward(self, x, at):
            before = self.rows0[:, 0]
            kept = before.clone()
            self.write(self.rows0, x, at)
            return before, kept, self.rows0.sum()

    twin = Shown(copied)
    model = copy.deepcopy(twin)
    compiled = mica.compile(model)
    for i in range(3):
        x, at = torch.randn(2, 2, 8), torch.tensor([0, i + 1])
        torch.testing.assert_close(compiled(x, at), twin(x, at))


def test_arguments_are_written_so_too():
    def write(rows, x, at):
        rows.index_copy_(0, at, x)
        return rows.sum()

    compiled = mica.compile(write)
    rows, twin = torch.zeros(512, 8), torch.zeros(512, 8)
    for i in range(4):
        x, at = torch.randn(2, 8), torch.tensor([i, 2 * i + 1])
        torch.testing.assert_close(compiled(rows, x, at), write(twin, x, at))
        torch.testing.assert_close(rows, twin)
    assert mica.explain(compiled).hits == 3
    assert_no_copy(compiled)


def test_what_is_told_to_dynamo_alone_breaks_no_graph():
    class Static(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = None
            self.count = torch.tensor(0)

        def forward(self, x):
            if self.rows is None:
                self.rows = torch.zeros(64, 4)
                torch._dynamo.mark_static_address(self.rows)
                torch._dynamo.mark_static_address(self.count)
            at = torch.arange(x.shape[0]) + self.count
            self.count.add_(x.shape[0])
            self.rows.index_copy_(0, at, x)
            return self.rows.sum(0)

    twin, model = Static(), Static()
    compiled = mica.compile(model)
    for _ in range(6):
        x = torch.randn(2, 4)
        torch.testing.assert_close(compiled(x), twin(x))
    torch.testing.assert_close(model.rows, twin.rows)
    told = mica.explain(compiled)
    assert told.hits == 4
    assert not told.refusals
