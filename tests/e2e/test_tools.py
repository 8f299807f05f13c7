"""mica_bench and mica_run, as a user calls them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MICA_BIN", ROOT / "build" / "bin"))
MLP = ROOT / "tests" / "golden" / "text" / "mlp.mica"
BAD = sorted((ROOT / "tests" / "golden" / "bad").glob("*.bad"))

pytestmark = pytest.mark.skipif(
    not (BIN / "mica_run").exists(), reason="the tools are not built"
)


def call(tool: str, *flags: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / tool), *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def bench(*flags: object) -> dict[str, Any]:
    done = call("mica_bench", "--json", "--repeats=3", "--warmup=1", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    [line] = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    return result


def expect_failure(
    status: int, message: str, tool: str, *flags: object
) -> None:
    done = call(tool, *flags)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert re.search(message, done.stderr), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bench_tells_all_figures_of_a_generated_program() -> None:
    result = bench("--generate=chain", "--ops=100")
    assert result["ops"] == 100
    assert result["steps"] < 100  # Several in each fused one.
    unfused = bench("--generate=chain", "--ops=100", "--fuse=false")
    assert unfused["steps"] == 100
    assert unfused["fuse"] is False
    assert unfused["unfused_plan_ms"] is None
    assert result["threads"] == 1
    for name in (
        "plan_ms",
        "analysis_ms",
        "bind_ms",
        "run_ns_per_op",
        "peak_memory_bytes",
    ):
        assert result[name] > 0, name
    assert result["fuse"] is True
    # All values of a chain lie where its result goes.
    assert result["arena_bytes"] == result["live_set_bytes"] == 0
    for planned in ("plan_ms", "least_plan_ms", "unfused_plan_ms"):
        assert 0 < result[planned]
    assert result["plan_repeats"] == 5
    assert result["parse_ms"] > 0
    assert result["parse_ms"] + result["analysis_ms"] == pytest.approx(
        result["plan_ms"]
    )
    assert result["least_plan_ms"] <= result["plan_ms"]
    spread = result["run_us"]
    assert 0 < spread["min"] <= spread["median"] <= spread["p90"]
    assert result["machine"] and result["commit"]


def test_bench_traces_planning_and_one_run(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ladder = ("--generate=ladder", "--ops=40", "--streams=2", "--fuse=false")
    bench(*ladder, f"--trace={path}")
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert names.count("plan @ladder") == 1
    assert names.count("run @ladder") == 1
    steps = [event for event in events if event.get("cat") == "step"]
    assert len(steps) == 40
    assert any(event["ph"] == "C" for event in events)


def test_bench_times_a_step_as_a_pipeline() -> None:
    step = ("--generate=transformer_step", "--layers=4", "--hidden=8")
    result = bench(
        *step, "--heads=2", "--seq=4", "--schedule=1f1b", "--stages=2"
    )
    assert result["stages"] == 2
    assert result["micro_batches"] == 8
    assert result["layers_of_stage"] == 2
    assert result["ratio"] == pytest.approx(
        result["pipeline_ms"] / result["stage_ms"]
    )
    expect_failure(
        1, "transformer_step", "mica_bench", "--generate=fan", "--schedule=zbv"
    )


def test_bench_prints_one_object_without_json_too() -> None:
    done = call("mica_bench", "--generate=chain", "--ops=10", "--plan_only")
    assert len(done.stdout.splitlines()) > 10
    result = json.loads(done.stdout)
    assert result["ops"] == 10
    assert result["run_ns_per_op"] is None
    assert result["run_us"] is None


@pytest.mark.parametrize(
    "flags",
    [
        ["--generate=chain", "--ops=50"],
        ["--generate=relu_add", "--ops=50"],
        [
            "--generate=transformer",
            "--layers=2",
            "--hidden=32",
            "--heads=4",
            "--batch=2",
            "--seq=8",
        ],
    ],
)
def test_bench_takes_back_what_it_dumped(
    flags: list[str], tmp_path: Path
) -> None:
    dump = tmp_path / "program.mica"
    made = bench(*flags, f"--dump={dump}")
    again = tmp_path / "again.mica"
    read = bench(f"--program={dump}", f"--dump={again}")
    assert dump.read_text() == again.read_text()
    for name in ("program", "ops", "steps", "arena_bytes", "live_set_bytes"):
        assert made[name] == read[name]
    for flag in ("--fuse=false", "--frozen", "--threads=2"):
        assert bench(f"--program={dump}", flag)["ops"] == made["ops"]


def test_bench_gives_sizes_to_symbols(tmp_path: Path) -> None:
    program = tmp_path / "symbols.mica"
    program.write_text(
        "program @f(%x: f32[batch,8]) {\n"
        "  %y = aten.relu(%x) : f32[batch,8]\n"
        "  return %y\n}\n"
    )
    assert bench(f"--program={program}", "--symbols=batch=3")["ops"] == 1
    expect_failure(1, "batch", "mica_bench", f"--program={program}")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--program=FILE or --generate"),
        (["--generate=chain", f"--program={MLP}"], "either"),
        (["--frobnicate"], "unknown flag '--frobnicate'"),
        (["--generate=ring"], "transformer or transformer_step, got 'ring'"),
        (["--generate=chain", "--ops=many"], "--ops: wants int64, got 'many'"),
        (["--generate=chain", "--ops=0"], "ops: wants 1 to"),
        (["--generate=chain", "--ops=99999999999"], "ops: wants 1 to"),
        (["--generate=chain", "--ops"], "--ops: wants a value"),
        (["--generate=chain", "--threads=0"], "--threads: wants 1 to"),
        (["--generate=chain", "--repeats=-1"], "--repeats: wants 1 to"),
        (["--generate=chain", "10"], "wants flags"),
        (["--generate=chain", "--noops"], "unknown flag"),
        (["--generate=transformer", "--heads=5"], "multiple of 5 heads"),
        ([f"--program={MLP}", "--symbols=batch"], "wants name=value"),
    ],
)
def test_bench_refuses_wrong_flags(flags: list[str], message: str) -> None:
    expect_failure(2, "INVALID_ARGUMENT: .*" + message, "mica_bench", *flags)


def test_bench_packs_an_allocation_problem(tmp_path: Path) -> None:
    problem = tmp_path / "problem.csv"
    problem.write_text("id,lower,upper,size\n0,0,2,3\n1,2,4,3\n2,0,4,4\n")
    flags = ("--json", f"--minimalloc={problem}")
    result = json.loads(call("mica_bench", *flags).stdout)
    assert result["capacity_needed"] == result["live_set"] == 7
    assert result["seconds"] > 0
    assert call("mica_bench", *flags, "--capacity=7").returncode == 0
    expect_failure(1, "no packing within", "mica_bench", *flags, "--capacity=6")
    expect_failure(1, "--capacity", "mica_bench", *flags, "--capacity=-1")
    problem.write_text("id,lower\n")
    expect_failure(1, "problem.csv: line 1: wants", "mica_bench", *flags)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
@pytest.mark.parametrize("tool", ["mica_bench", "mica_run"])
def test_bad_programs_are_errors(tool: str, path: Path) -> None:
    want = path.with_suffix(".want").read_text().strip()
    code, message = want.split(": ", 1)
    done = call(tool, f"--program={path}")
    assert done.returncode == 1
    assert done.stderr == f"{tool}: {code}: {path}: {message}\n"


def test_programs_that_are_no_files_are_errors(tmp_path: Path) -> None:
    for tool in ("mica_bench", "mica_run"):
        expect_failure(1, "NOT_FOUND", tool, "--program=/nowhere/x.mica")
        expect_failure(1, "mica", tool, f"--program={tmp_path}")


def test_too_large_programs_are_out_of_memory(tmp_path: Path) -> None:
    program = tmp_path / "big.mica"
    program.write_text(
        "program @f(%x: f32[1000000000,10000]) {\n"
        '  %y = aten.relu(%x) : f32[1000000000,10000] @ "big.py":2\n'
        "  return %y\n}\n"
    )
    expect_failure(
        1,
        "RESOURCE_EXHAUSTED: .*40000000000000 bytes",
        "mica_bench",
        f"--program={program}",
    )
    assert bench(f"--program={program}", "--plan_only")["ops"] == 1


@pytest.fixture
def feeds(tmp_path: Path) -> dict[str, Path]:
    random = np.random.default_rng(7)
    x = random.standard_normal((32, 784), dtype=np.float32)
    w = random.standard_normal((784, 10), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    save_file({"x": x}, tmp_path / "x.safetensors")
    save_file({"fc.weight": w}, tmp_path / "w.safetensors")
    return {
        "x": tmp_path / "x.npy",
        "xs": tmp_path / "x.safetensors",
        "w": tmp_path / "w.safetensors",
        "dir": tmp_path,
    }


def test_run_computes_what_numpy_does(feeds: dict[str, Path]) -> None:
    out = feeds["dir"] / "out.safetensors"
    done = call(
        "mica_run",
        f"--program={MLP}",
        f"--weights={feeds['w']}",
        f"--feed=x={feeds['x']}",
        "--fetch=y,h",
        f"--out={out}",
        f"--out_dir={feeds['dir'] / 'out'}",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" min=")[0] for line in lines] == [
        "y: f32[32,10]",
        "h: f32[32,10]",
    ]
    x = np.load(feeds["x"]).astype(np.float64)
    h = x @ load_file(feeds["w"])["fc.weight"].astype(np.float64)
    got = load_file(out)
    np.testing.assert_allclose(got["h"], h, atol=1e-3)
    np.testing.assert_allclose(got["y"], np.maximum(h, 0), atol=1e-3)
    for name in ("h", "y"):
        np.testing.assert_array_equal(
            np.load(feeds["dir"] / "out" / f"{name}.npy"), got[name]
        )


def test_run_takes_feeds_of_both_formats(feeds: dict[str, Path]) -> None:
    common = [f"--program={MLP}", f"--weights={feeds['w']}"]
    npy = call("mica_run", *common, "--feed", f"x={feeds['x']}")
    both = call("mica_run", *common, f"--feeds={feeds['xs']}")
    assert npy.returncode == both.returncode == 0
    assert npy.stdout == both.stdout


def test_run_repeats_nothing_that_changes_what_it_reads(
    feeds: dict[str, Path],
) -> None:
    program = feeds["dir"] / "count.mica"
    program.write_text(
        """program @count(%x: f32[2]) {
  %w = variable "w" : f32[2]
  %s = aten.add.Tensor(%w, %x) : f32[2]
  update %w = %s
  return %s
}
"""
    )
    for flag, why in (
        ("--repeat=2", "with each run"),
        ("--frozen", "or another"),
    ):
        expect_failure(
            1,
            f"{flag[:8]}.*updates %w.*{why}",
            "mica_run",
            f"--program={program}",
            flag,
        )


def test_run_names_what_is_wrong_with_feeds(feeds: dict[str, Path]) -> None:
    program = f"--program={MLP}"
    w = f"--weights={feeds['w']}"
    x = f"--feed=x={feeds['x']}"
    np.save(feeds["dir"] / "short.npy", np.zeros((32, 7), np.float32))
    np.save(feeds["dir"] / "double.npy", np.zeros((32, 784)))
    (feeds["dir"] / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
    save_file({"fc.weight": np.zeros((2, 2))}, feeds["dir"] / "bad.safetensors")
    cases: list[tuple[str, list[str]]] = [
        ('NOT_FOUND: variable "fc.weight"', [x]),
        ('INVALID_ARGUMENT: feed "x" is missing', [w]),
        (
            'INVALID_ARGUMENT: feed "q" is for no',
            [w, x, f"--feed=q={feeds['x']}"],
        ),
        (r"wants f32\[32,784\]", [w, f"--feed=x={feeds['dir']}/short.npy"]),
        (r"got f64\[32,784\]", [w, f"--feed=x={feeds['dir']}/double.npy"]),
        ("broken.npy", [w, f"--feed=x={feeds['dir']}/broken.npy"]),
        ("NOT_FOUND", [w, "--feed=x=/nowhere/x.npy"]),
        ("given twice", [w, x, f"--feeds={feeds['xs']}"]),
        ('NOT_FOUND: fetch "z"', [w, x, "--fetch=z"]),
        ("fc.weight", [f"--weights={feeds['dir']}/bad.safetensors", x]),
        ("NOT_FOUND", [w, x, "--out=/nowhere/out.safetensors"]),
    ]
    for message, flags in cases:
        expect_failure(1, message, "mica_run", program, *flags)
    usage = ("--feed=x", "--threads=0", "--repeat=-1", "--callers=0")
    for flags in ([], *([program, flag] for flag in usage)):
        expect_failure(2, "INVALID_ARGUMENT", "mica_run", *flags)


def test_run_writes_updated_weights(tmp_path: Path) -> None:
    program = tmp_path / "count.mica"
    program.write_text(
        "program @count(%by: f32[2]) {\n"
        '  %0 = variable "total" : f32[2]\n'
        "  %1 = aten.add.Tensor(%0, %by) : f32[2]\n"
        '  update "total" = %1\n'
        "  return\n}\n"
    )
    np.save(tmp_path / "by.npy", np.array([1, 2], np.float32))
    save_file({"total": np.array([10, 20], np.float32)}, tmp_path / "0.st")
    for i in range(2):
        done = call(
            "mica_run",
            f"--program={program}",
            f"--weights={tmp_path / str(i)}.st",
            f"--feed=by={tmp_path / 'by.npy'}",
            f"--out_weights={tmp_path / str(i + 1)}.st",
        )
        assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(
        load_file(tmp_path / "2.st")["total"], [12, 24]
    )


def encoder_layer(
    x: torch.Tensor, weights: dict[str, torch.Tensor], heads: int
) -> torch.Tensor:
    """The layer that `--generate=transformer` builds, written by hand."""
    f = torch.nn.functional

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return f.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return f.layer_norm(
            x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"]
        )

    qkv = linear("layers.0.attention.qkv", norm("layers.0.norm1", x))
    batch, seq, hidden = x.shape
    qkv = qkv.reshape(batch, seq, 3, heads, hidden // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    x = x + linear("layers.0.attention.out", y)
    y = f.gelu(linear("layers.0.mlp.up", norm("layers.0.norm2", x)))
    x = x + linear("layers.0.mlp.down", y)
    return norm("norm", x)


@pytest.mark.parametrize("fuse", ["--fuse", "--nofuse"])
def test_generated_transformer_computes_what_torch_does(
    fuse: str, tmp_path: Path
) -> None:
    program = tmp_path / "t.mica"
    sizes = ["--layers=1", "--hidden=32", "--heads=4", "--batch=2", "--seq=6"]
    bench("--generate=transformer", *sizes, "--plan_only", f"--dump={program}")
    random = np.random.default_rng(3)
    weights = {
        name: random.uniform(-0.3, 0.3, [int(d) for d in dims.split(",")])
        for name, dims in re.findall(
            r'variable "(.*)" : f32\[(.*)\]', program.read_text()
        )
    }
    x = random.standard_normal((2, 6, 32))
    as_f32 = {name: w.astype(np.float32) for name, w in weights.items()}
    save_file(as_f32, tmp_path / "w.safetensors")
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    done = call(
        "mica_run",
        f"--program={program}",
        f"--weights={tmp_path / 'w.safetensors'}",
        f"--feed=x={tmp_path / 'x.npy'}",
        f"--out_dir={tmp_path / 'out'}",
        fuse,
    )
    assert done.returncode == 0, done.stderr
    want = encoder_layer(
        torch.from_numpy(x),
        {name: torch.from_numpy(w) for name, w in weights.items()},
        heads=4,
    )
    [path] = (tmp_path / "out").iterdir()
    np.testing.assert_allclose(np.load(path), want.numpy(), atol=2e-5)
