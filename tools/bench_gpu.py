"""Times a training step of a transformer on a GPU: Mica's, and PyTorch's.

The step is that of `mica_bench --generate=transformer_step`: pre-norm encoder
layers, the mean square of what they give as the loss, plain gradient descent on
every weight. PyTorch runs it eagerly, as one CUDA graph of the eager step, and
compiled with mode="reduce-overhead"; all of them in the same precision (f32
without TF32, or bf16 throughout).

    python tools/bench_gpu.py --bench build/bin/mica_bench --json

Prints one line a size, or one JSON object with --json. Needs a GPU, and a torch
that sees it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

# Layers, hidden size, heads, batch and tokens.
_SIZES = {
    "tiny": (2, 128, 2, 1, 64),
    "small": (4, 256, 4, 8, 128),
    "base": (12, 768, 12, 32, 128),
}
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Operators that do little but move memory, on 256 MiB of f32: their Programs,
# and how many bytes they move for each element.
_ROWS, _COLUMNS = 65536, 1024
_MOVERS = {
    "copy": ("%y = aten.clone(%x) : T", 8),
    "softmax": ("%y = aten._softmax(%x, 1, false) : T", 8),
    "softmax backward": (
        "%y = aten._softmax_backward_data(%x, %z, 1, f32) : T",
        12,
    ),
    "layer norm": (
        "%y, %m, %r = aten.native_layer_norm(%x, [C], %w, %b, 1e-5) : T, M, M",
        8,
    ),
    "layer norm backward": (
        "%y, %dw, %db = aten.native_layer_norm_backward(%x, %z, [C], %mean, "
        "%rstd, %w, %b, [true, true, true]) : T, V, V",
        12,
    ),
    "adam": (
        "%y, %m, %v = mica.adam_step(%x, %z, %first, %second, %step, 1e-3, "
        "0.9, 0.999, 0.01, 1e-8, false, true) : T, T, T",
        28,
    ),
}
_WAYS = ("eager", "graph", "compile")
_ON_GPU = (
    "--place=cuda:0",
    "--plan_repeats=1",
    "--repeats=20",
    "--step_times",
    "--json",
)
_WARMUP = 10
_ROUNDS = 5
_RATE = 1e-3


# Of which torch's stubs tell too little.
_cuda: Any = torch.cuda


class _Layer(nn.Module):
    """A pre-norm encoder layer, its three projections apart."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, hidden] to the same."""
        batch, tokens, hidden = x.shape
        y = self.norm1(x)
        split = (batch, tokens, self.heads, hidden // self.heads)
        q, k, v = (
            part(y).view(split).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, hidden))
        y = self.down(nn.functional.gelu(self.up(self.norm2(x))))
        z: torch.Tensor = x + y
        return z


def _milliseconds(step: Any, repeats: int) -> float:
    """The time of a call, of `repeats` of them between two events."""
    start = _cuda.Event(enable_timing=True)
    end = _cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        step()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / repeats


def _measure(step: Any) -> list[float]:
    for _ in range(_WARMUP):
        step()
    torch.cuda.synchronize()
    repeats = max(1, int(200 / max(_milliseconds(step, 3), 0.01)))
    return [_milliseconds(step, repeats) for _ in range(_ROUNDS)]


def _graphed(step: Any) -> Any:
    """The step as one CUDA graph."""
    side = _cuda.Stream()
    with _cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure_torch(
    size: tuple[int, ...], dtype: torch.dtype, ways: Sequence[str]
) -> dict[str, list[float]]:
    """Milliseconds of a step, by how it is run."""
    layers, hidden, heads, batch, tokens = size
    torch.backends.cuda.matmul.allow_tf32 = False
    model = nn.Sequential(*(_Layer(hidden, heads) for _ in range(layers)))
    model.to("cuda", dtype)
    x = torch.rand(batch, tokens, hidden, device="cuda", dtype=dtype) - 0.5
    params: list[torch.Tensor] = list(model.parameters())

    def run(forward: Any) -> Any:
        def step() -> None:
            loss = forward(x)
            gradients = torch.autograd.grad(loss, params)
            with torch.no_grad():
                torch._foreach_add_(params, gradients, alpha=-_RATE)

        return step

    def loss_of(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).square().mean()
        return loss

    eager = run(loss_of)
    found = {}
    if "eager" in ways:
        found["eager"] = _measure(eager)
    if "graph" in ways:
        found["graph"] = _measure(_graphed(eager))
    if "compile" in ways:
        compiled = torch.compile(loss_of, mode="reduce-overhead")
        found["compile"] = _measure(run(compiled))
    return found


def _run_bench(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def measure_mica(
    bench: str, size: tuple[int, ...], dtype: str, streams: int
) -> Any:
    """The JSON that mica_bench prints."""
    layers, hidden, heads, batch, tokens = size
    return _run_bench(
        [
            bench,
            "--generate=transformer_step",
            f"--layers={layers}",
            f"--hidden={hidden}",
            f"--heads={heads}",
            f"--batch={batch}",
            f"--seq={tokens}",
            f"--dtype={dtype}",
            f"--streams={streams}",
            *_ON_GPU,
        ]
    )


def _mover_text(statement: str) -> str:
    """The Program of one of _MOVERS."""
    types = {
        "T": f"f32[{_ROWS},{_COLUMNS}]",
        "M": f"f32[{_ROWS},1]",
        "V": f"f32[{_COLUMNS}]",
        "S": "f32[]",
    }
    inputs = {
        "x": "T",
        "z": "T",
        "first": "T",
        "second": "T",
        "mean": "M",
        "rstd": "M",
        "w": "V",
        "b": "V",
        "step": "S",
    }
    call, results = statement.rsplit(" : ", 1)
    used = [name for name in inputs if re.search(rf"%{name}\b", call)]
    given = ", ".join(f"%{name}: {types[inputs[name]]}" for name in used)
    results = ", ".join(types[t] for t in results.split(", "))
    outputs = call.split(" = ")[0]
    call = call.replace("[C]", f"[{_COLUMNS}]")
    return (
        f"program @mover({given}) {{\n  {call} : {results}\n"
        f"  return {outputs}\n}}\n"
    )


def measure_movers(bench: str) -> dict[str, float]:
    """Bytes a second of each, by kernels' own time."""
    found = {}
    for name, (statement, bytes_of_element) in _MOVERS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".mica") as file:
            file.write(_mover_text(statement))
            file.flush()
            mica = _run_bench([bench, f"--program={file.name}", *_ON_GPU])
        us = sum(kernel["us"] for kernel in mica["kernel_us"].values())
        found[name] = _ROWS * _COLUMNS * bytes_of_element / us * 1e6
    return found


def measure_branches(bench: str) -> dict[str, dict[int, float]]:
    """Microseconds of Programs of many small steps, by number of streams."""
    return {
        kind: {
            streams: _run_bench(
                [
                    bench,
                    f"--generate={kind}",
                    "--ops=400",
                    "--fuse=false",
                    f"--streams={streams}",
                    *_ON_GPU,
                ]
            )["run_us"]["median"]
            for streams in (1, 2, 4, 8)
        }
        for kind in ("fan", "ladder", "random")
    }


def main() -> int:
    """Measures all sizes, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default="build/bin/mica_bench")
    parser.add_argument("--sizes", nargs="*", default=list(_SIZES))
    parser.add_argument("--dtypes", nargs="*", default=list(_DTYPES))
    parser.add_argument("--ways", nargs="*", default=list(_WAYS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "sizes": {}}
    found["bytes_per_second"] = measure_movers(options.bench)
    found["branches_us"] = measure_branches(options.bench)
    if not options.json:
        print(found["branches_us"])
        copy = found["bytes_per_second"]["copy"]
        for name, rate in found["bytes_per_second"].items():
            print(f"{name}: {rate / 1e12:.2f} TB/s, {rate / copy:.2f} of copy")
    for name, dtype in itertools.product(options.sizes, options.dtypes):
        row: dict[str, Any] = {}
        for streams in (1, 4):
            mica = measure_mica(options.bench, _SIZES[name], dtype, streams)
            row[f"mica, {streams} streams"] = {
                "ms": mica["run_us"]["median"] / 1e3,
                "graph_runs": mica["graph_runs"],
                "queue_us": mica["queue_us"],
                "kernel_us": mica["kernel_us"],
                "plan_ms": mica["first_plan_ms"],
            }
        rivals = measure_torch(_SIZES[name], _DTYPES[dtype], options.ways)
        for way, ms in rivals.items():
            row[f"torch, {way}"] = {
                "ms": statistics.median(ms),
                "spread": (min(ms), max(ms)),
            }
        found["sizes"][f"{name}, {dtype}"] = row
        if not options.json:
            times = {way: round(of["ms"], 4) for way, of in row.items()}
            print(name, dtype, times, flush=True)
    if options.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
