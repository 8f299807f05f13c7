"""Programs and Executor from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import mica

NET = """program @net(%x: f32[batch,2], %scale: f64) {
  %w = variable "fc.weight" : f32[2,3]
  %h = aten.mm(%x, %w) : f32[batch,3] @ "net.py":4
  %s = aten.mul.Tensor(%h, %scale) : f32[batch,3] @ "net.py":5
  %y = aten.relu(%s) : f32[batch,3] @ "net.py":6
  return %y
}
"""


@pytest.fixture
def program() -> mica.Program:
    weight = torch.tensor([[1.0, -1.0, 0.5], [2.0, 0.0, -3.0]])
    return mica.Program.parse(NET, {"fc.weight": weight})


@pytest.mark.parametrize("batch", [1, 4])
def test_runs_at_any_size_of_a_symbol(
    program: mica.Program, batch: int
) -> None:
    x = torch.randn(batch, 2)
    (y,) = mica.Executor("cpu").run(program, feed={"x": x, "scale": 2.0})
    want = torch.relu(x @ program.tensors["fc.weight"] * 2)
    torch.testing.assert_close(y, want)


def test_takes_numpy_and_fetches_by_name(program: mica.Program) -> None:
    x = np.ones((2, 2), dtype=np.float32)
    s, h = mica.Executor("cpu").run(
        program, feed={"x": x, "scale": 0.5}, fetch_list=["s", "h"]
    )
    torch.testing.assert_close(s, h * 0.5)


def test_results_belong_to_the_caller(program: mica.Program) -> None:
    executor = mica.Executor("cpu")
    (first,) = executor.run(program, {"x": torch.ones(1, 2), "scale": 1.0})
    kept = first.clone()
    executor.run(program, {"x": torch.zeros(1, 2), "scale": 1.0})
    assert torch.equal(first, kept)


def test_writes_what_the_program_updates() -> None:
    program = mica.Program.parse(
        "program @count(%x: f32[2]) {\n"
        '  %n = variable "n" : f32[2]\n'
        "  %m = aten.add.Tensor(%n, %x) : f32[2]\n"
        '  update "n" = %m\n'
        "  return %m\n"
        "}\n",
        {"n": torch.zeros(2)},
    )
    executor = mica.Executor("cpu")
    for _ in range(3):
        executor.run(program, {"x": torch.ones(2)})
    assert program.tensors["n"].tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("feed", "text"),
    [
        ({"x": torch.ones(1, 2)}, 'feed "scale" is missing'),
        (
            {"x": torch.ones(1, 2), "scale": 1.0, "z": 1.0},
            'feed "z" is for no input',
        ),
        (
            {"x": torch.ones(1, 3), "scale": 1.0},
            r"wants f32\[batch,2\], got f32\[1,3\]",
        ),
        ({"x": torch.ones(1, 2).double(), "scale": 1.0}, "got f64"),
        (
            {"x": torch.ones(1, 2).to_sparse(), "scale": 1.0},
            "wants a dense tensor on the CPU, got a sparse one",
        ),
        (
            {"x": torch.ones(1, 2, device="meta"), "scale": 1.0},
            "wants a dense tensor on the CPU, got meta",
        ),
        ({"x": "text", "scale": 1.0}, "wants a torch.Tensor"),
    ],
)
def test_wrong_feeds_are_value_errors(
    program: mica.Program, feed: dict[str, object], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        mica.Executor("cpu").run(program, feed)


def test_unknown_names_are_lookup_errors(program: mica.Program) -> None:
    executor = mica.Executor("cpu")
    feed = {"x": torch.ones(1, 2), "scale": 1.0}
    with pytest.raises(LookupError, match='fetch "q" is no value'):
        executor.run(program, feed, ["q"])
    bare = mica.Program.parse(NET)
    with pytest.raises(LookupError, match='"fc.weight" has no value'):
        executor.run(bare, feed)
    with pytest.raises(LookupError, match="no operator aten.nothing"):
        mica.Program.parse(
            "program @p(%x: f32[2]) {\n"
            "  %y = aten.nothing(%x) : f32[2]\n"
            "  return %y\n"
            "}\n"
        )


def test_errors_at_run_time_name_op_and_line() -> None:
    program = mica.Program.parse(
        "program @look(%w: f32[4,2], %i: i64[1]) {\n"
        '  %e = aten.embedding(%w, %i) : f32[1,2] @ "look.py":12\n'
        "  return %e\n"
        "}\n"
    )
    feed = {"w": torch.ones(4, 2), "i": torch.tensor([4])}
    with pytest.raises(Exception, match=r"aten\.embedding \(look\.py:12\)"):
        mica.Executor("cpu").run(program, feed)
    feed["i"] = torch.tensor([3])
    mica.Executor("cpu").run(program, feed)


def test_too_much_memory_is_a_memory_error() -> None:
    program = mica.Program.parse(
        "program @huge() {\n"
        "  %y = aten.full([4000000000000], 1.0) : f32[4000000000000]\n"
        "  return %y\n"
        "}\n"
    )
    with pytest.raises(MemoryError, match="bytes asked"):
        mica.Executor("cpu").run(program)


def test_places_and_options_are_checked() -> None:
    with pytest.raises(ValueError, match="place"):
        mica.Executor("tpu")
    with pytest.raises(NotImplementedError, match="cuda:0"):
        mica.Executor("cuda")
    with pytest.raises(ValueError, match="num_threads"):
        mica.Executor("cpu", num_threads=0)


def test_opaque_operators_run_through_aten() -> None:
    program = mica.Program.parse(
        "program @p(%x: f32[3]) {\n"
        '  opaque "aten::i0(Tensor self) -> Tensor"\n'
        "  %y = aten.i0(%x) : f32[3]\n"
        "  return %y\n"
        "}\n"
    )
    assert program.opaque_ops == {"aten.i0": 1}
    x = torch.tensor([0.5, 1.0, 2.0])
    (y,) = mica.Executor("cpu").run(program, {"x": x})
    assert torch.equal(y, torch.i0(x))


def test_text_round_trips_through_a_file(
    program: mica.Program, tmp_path: Path
) -> None:
    path = tmp_path / "net.mica"
    program.save(path)
    assert str(mica.Program.load(path)) == str(program) == NET
    assert program.inputs == [("x", "f32[batch,2]"), ("scale", "f64")]
    assert program.variables == [("fc.weight", "f32[2,3]")]
    assert program.op_counts == {
        "aten.mm": 1,
        "aten.mul.Tensor": 1,
        "aten.relu": 1,
    }
