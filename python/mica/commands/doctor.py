"""`mica doctor`: the machine, the versions, the caches, and a self-test."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import torch

from mica import _mica
from mica.compile import compile as _compile
from mica.explain import explain
from mica.explaining import wording
from mica.options import default_num_streams, default_num_threads, default_queue

# What kernels of Mica's or of its libraries look for.
_INSTRUCTION_SETS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_int8",
)

# What the loops of each level take for granted.
_LEVELS = {
    "x86-64-v1": "SSE2",
    "x86-64-v3": "AVX2 and FMA",
    "x86-64-v4": "AVX-512",
}

_LIBRARIES = ("numpy", "onednn-cpu-gomp", "safetensors", "transformers", "timm")

# How many the compiler of regions is timed with.
_REGIONS = 100

# How far the self-test's results may be from eager's, relative to the largest.
_TOLERANCE = 1e-4


def add_parser(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the word to the command's parser."""
    parser = words.add_parser(
        "doctor",
        help="what Mica finds here, and whether it works; exit 1 if not",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    del options
    is_well = True
    for title, section in (
        ("machine", _machine),
        ("threads", _threads),
        ("versions", _versions),
        ("regions", _regions),
        ("caches", _caches),
        ("environment", _environment),
    ):
        print(title)
        for name, text in section():
            print(f"  {name:<18}{text}")
    print("self-test")
    for name, check in (
        ("inference", _check_inference),
        ("training step", _check_training),
    ):
        try:
            found = check()
        except Exception as error:
            is_well = False
            found = f"FAILED: {type(error).__name__}: {error}"
        print(f"  {name:<18}{found}")
    print("Mica works here" if is_well else "Mica does not work here")
    return 0 if is_well else 1


_Lines = Iterator[tuple[str, str]]


def _machine() -> _Lines:
    fields = _cpu_fields()
    yield "system", f"{platform.system()} {platform.release()}"
    yield "processor", fields.get("model name", platform.machine())
    mine = len(os.sched_getaffinity(0))
    yield "cores", f"{mine} for this process, {os.cpu_count()} in all"
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield "memory", wording.bytes_of(pages)
    there = fields.get("flags", "").split()
    found = [name for name in _INSTRUCTION_SETS if name in there]
    yield "instructions", " ".join(found) or "neither AVX2 nor AVX-512"
    level = _mica.instruction_set()
    wish = os.environ.get("MICA_SIMD")
    held = f", with MICA_SIMD={wish}" if wish else ""
    yield "kernels for", f"{level} ({_LEVELS[level]}){held}"


def _cpu_fields() -> dict[str, str]:
    """Of the first processor, what the kernel tells."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n")[0].split("\n"))
    return {name.strip(): value.strip() for name, _, value in lines}


def _regions() -> _Lines:
    before = _resident_bytes()
    compiler, done, milliseconds = _mica.compile_regions(_REGIONS)
    if not done:
        yield "compiled by", compiler or "nothing, as MICA_JIT wants it"
        return
    grown = wording.bytes_of(max(_resident_bytes() - before, 0))
    yield "compiled by", compiler
    yield (
        f"{done} of them",
        f"{milliseconds / done:.1f} ms each, {grown} in all",
    )


def _resident_bytes() -> int:
    """Of this process; 0 where the kernel doesn't tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _threads() -> _Lines:
    yield "of one op", str(default_num_threads())
    yield "streams", str(default_num_streams())
    yield "queue", "on" if default_queue() else "off"
    yield "torch's", str(torch.get_num_threads())


def _versions() -> _Lines:
    version = _version("mica")
    yield "mica", version or f"from {Path(__file__).parents[1]}"
    yield "python", f"{platform.python_version()} at {sys.executable}"
    yield "torch", torch.__version__
    for name in _LIBRARIES:
        yield name, _version(name) or "not installed"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _caches() -> _Lines:
    folder = _mica.cache_folder()
    if os.environ.get("MICA_PLAN_CACHE") == "0" or not folder:
        yield "Plans", "none are kept on disk"
        return
    entries = _mica.cache_list(folder)
    total = sum(entry.bytes for entry in entries)
    damaged = sum(entry.state not in ("ok", "other build") for entry in entries)
    text = f"{wording.many(len(entries), 'file')}, {wording.bytes_of(total)}"
    if damaged:
        text += f", {damaged} damaged: `mica cache verify --remove`"
    place = folder if Path(folder).exists() else f"{folder}, not made yet"
    yield "Plans", f"{text} in {place}"


def _environment() -> _Lines:
    mine = {k: v for k, v in os.environ.items() if k.startswith("MICA_")}
    yield from sorted(mine.items())
    if not mine:
        yield "MICA_...", "none is set"


# The self-test.


def _check_inference() -> str:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.GELU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 8 * 8, 10),
    ).eval()
    compiled = _compile(model)
    batches = [torch.randn(2, 3, 8, 8) for _ in range(3)]
    with torch.no_grad():
        pairs = [(compiled(x), model(x)) for x in batches]
    return _judge(compiled, pairs, hits=2)


def _check_training() -> str:
    def losses(
        wrap: Callable[..., Callable[..., torch.Tensor]],
    ) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(x).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        run = wrap(step)
        steps.append(run)
        return [run(torch.randn(4, 8)).detach() for _ in range(6)]

    steps: list[Callable[..., torch.Tensor]] = []
    pairs = list(zip(losses(_compile), losses(lambda f: f), strict=True))
    return _judge(steps[0], pairs, hits=1)


def _judge(
    compiled: Callable[..., torch.Tensor],
    pairs: list[tuple[torch.Tensor, torch.Tensor]],
    hits: int,
) -> str:
    """Compares results with eager's.

    Raises:
      RuntimeError: They differ, or were not served by a graph.
    """
    report = explain(compiled)
    worst = max(
        float((ours - eager).abs().max() / eager.abs().max())
        for ours, eager in pairs
    )
    if not worst <= _TOLERANCE:
        raise RuntimeError(f"results differ from eager's by {worst:.1e}")
    if report.hits < hits:
        raise RuntimeError(f"no graph served it:\n{report}")
    ops = wording.many(len(report.graphs[0].ops), "op")
    return (
        f"passed: {ops}, {report.hits} of {len(pairs)} calls hits, largest "
        f"difference from eager {worst:.1e}"
    )
