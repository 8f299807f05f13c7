"""Indices and slices of tensors by numbers that vary: one graph for all."""

import copy
import random
import warnings

import pytest
import torch
from e2e.capture import indexed_programs

import mica


def assert_one_graph(fn, calls, *, others=()):
    """All calls but two or three are hits, and give what eager gives."""
    compiled = mica.compile(fn)
    for args in (*calls, *others):
        own, twin = copy.deepcopy(args), copy.deepcopy(args)
        torch.testing.assert_close(compiled(*own), fn(*twin))
        torch.testing.assert_close(own, twin)
    assert mica.explain(compiled).hits >= len(calls) - 2
    return compiled


def test_a_row_by_an_argument():
    x = torch.randn(9, 4)
    assert_one_graph(lambda x, i: x[i] * 2, [(x, i) for i in range(9)])


def test_rows_from_the_end():
    x = torch.randn(9, 4)
    assert_one_graph(lambda x, i: x[i] * 2, [(x, -i) for i in range(1, 10)])


def test_two_indices_and_a_slice_of_one_length():
    x = torch.randn(5, 9, 8)
    assert_one_graph(
        lambda x, i, j: x[i, j : j + 2, None, -1].exp(),
        [(x, i % 5, (3 * i) % 8) for i in range(12)],
    )


def test_a_view_of_a_view():
    x = torch.randn(6, 5, 4)
    assert_one_graph(
        lambda x, i: x[:, i].t()[1:3].sum(1), [(x, i) for i in range(5)]
    )


def test_rows_are_written():
    def write(cache, x, i):
        cache[:, i] = x
        cache[1, i : i + 1] += 1
        return cache.sum()

    cache = torch.zeros(3, 8, 4)
    assert_one_graph(write, [(cache, torch.randn(3, 4), i) for i in range(8)])


def test_a_position_that_the_program_counts():
    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # In float32 eager's softmax of 4096 columns is off by 4e-5.
            self.register_buffer("keys", torch.zeros(2, 4096, 8).double())
            self.at = 0

        def forward(self, x):
            self.keys[:, self.at] = x
            self.at += 1
            return torch.softmax(self.keys @ x[:, :, None], 1).sum()

    twin = Decoder()
    model = copy.deepcopy(twin)
    compiled = mica.compile(model)
    for _ in range(20):
        x = torch.randn(2, 8).double()
        torch.testing.assert_close(compiled(x), twin(x))
    torch.testing.assert_close(model.keys, twin.keys)
    assert model.at == twin.at == 20
    told = mica.explain(compiled)
    assert told.captures == 2
    # Nor is the state copied.
    assert "take back" in told.details("plan")


def test_a_position_that_a_tensor_tells():
    x = torch.randn(9, 4)
    assert_one_graph(
        lambda x, t: x[t.argmax().item()] + 1,
        [(x, torch.randn(9)) for _ in range(12)],
    )


def test_what_is_out_of_range_raises_as_eager_does():
    fn = mica.compile(lambda x, i: x[i].sum())
    x = torch.randn(4, 3)
    for i in range(4):
        fn(x, i)
    for i in (4, -5, 2**40):
        with pytest.raises(IndexError, match="out of bounds|out of range"):
            fn(x, i)
    torch.testing.assert_close(fn(x, -4), x[0].sum())
    torch.testing.assert_close(fn(x, 3), x[3].sum())


def test_a_slice_that_reaches_beyond_its_dim_is_as_long_as_eager_has_it():
    fn = mica.compile(lambda x, i: x[i : i + 2].exp())
    x = torch.randn(6, 3)
    for i in (0, 1, 2, 3, 5, 6, 7, 4, 5, -1, -2, 1):
        torch.testing.assert_close(fn(x, i), x[i : i + 2].exp())


def test_slices_of_another_length_are_others():
    fn = mica.compile(lambda x, i, j: x[i:j].sum(0))
    x = torch.randn(8, 3)
    for i, j in ((0, 2), (1, 3), (2, 4), (2, 5), (3, 6), (0, 8), (5, 5)):
        torch.testing.assert_close(fn(x, i, j), x[i:j].sum(0))


def test_other_sizes_keep_their_own_bounds():
    fn = mica.compile(lambda x, i: x[:, i].sum())
    for rows, columns, i in (
        (3, 4, 0),
        (3, 4, 1),
        (3, 4, 3),
        (3, 6, 3),
        (5, 4, 2),
    ):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(fn(x, i), x[:, i].sum())
    for columns in (4, 6, 3):
        with pytest.raises(IndexError):
            fn(torch.randn(3, columns), columns)


def test_a_result_that_is_a_view_stays_one():
    fn = mica.compile(lambda x, i: (x[i], x.sum()))
    x = torch.randn(4, 3)
    for i in (0, 1, 2, 3, 1):
        row, _ = fn(x, i)
        assert row.data_ptr() == x[i].data_ptr()


def test_gradients_go_to_the_right_rows():
    fn = mica.compile(lambda x, i: (x[i] ** 2).sum())
    for i in (0, 1, 2, 1, 0):
        x = torch.randn(4, 3, requires_grad=True)
        with torch.enable_grad():
            fn(x, i).backward()
        want = torch.zeros(4, 3)
        want[i] = 2 * x[i].detach()
        torch.testing.assert_close(x.grad, want)


def same(one, other, exact):
    tolerance = 0 if exact else 1e-3
    torch.testing.assert_close(
        one, other, rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.once("it is long, and each program is new")
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    draw = random.Random(seed)
    hits = 0
    for _ in range(40):
        text, dtype = indexed_programs.make_module(draw)
        exact = draw.random() < 0.5
        namespace = {"torch": torch}
        exec(text, namespace)
        twin, model = namespace["M"](), namespace["M"]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = mica.compile(model, exact=exact)
            for n in range(16):
                args = [
                    (torch.randn(6, 5, 4) * 3).to(dtype),
                    (torch.randn(5, 4) * 3).to(dtype),
                    torch.tensor(draw.randrange(4)),
                    *(
                        (n % 5, (n + 1) % 4)
                        if n < 12
                        else (draw.randint(-2, 7), draw.randint(-1, 5))
                    ),
                ]
                want = indexed_programs.call(twin, *args)
                got = indexed_programs.call(compiled, *args)
                try:
                    if isinstance(want[0], str) or isinstance(got[0], str):
                        assert got[0] == want[0]
                    else:
                        same(got[0], want[0], exact)
                    same(got[1:3], want[1:3], exact)
                    assert got[3] == want[3]
                except AssertionError as error:
                    raise AssertionError(
                        f"call {n}, {args[2:]}:\n{text}"
                    ) from error
        hits += mica.explain(compiled).hits
    assert hits > 100
