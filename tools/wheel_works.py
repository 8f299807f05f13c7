#!/usr/bin/env python3
"""Tries an installed Mica: what it was loaded from, and what it computes.

Runs by the Python that has the wheel, which may have nothing else than what the
wheel asks for; an argument is the folder that the wheel lies in, if that isn't
the Python's own. Exits with 1, and says why, if Mica isn't the installed one,
if the process has more than one OpenMP runtime or a library that only a machine
for building has, or if a model or a training step computes something else than
eager PyTorch.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig

import torch

import mica

OPENMP = re.compile(r"/lib(gomp|omp|iomp5)[.-][^/]*$")
# Of packages that the build installs.
BUILDS = re.compile(r"/lib(absl|glog|gflags|unwind|xsmm|benchmark|gtest)[^/]*$")


def mapped_files() -> set[str]:
    """The files that are mapped into this process."""
    with open("/proc/self/maps") as lines:
        return {
            words[5].strip()
            for words in (line.split(maxsplit=5) for line in lines)
            if len(words) == 6 and words[5].startswith("/")
        }


def check_files() -> list[str]:
    """Says what is loaded that shouldn't be; prints what is."""
    wrong = []
    site = sys.argv[1] if sys.argv[1:] else sysconfig.get_path("platlib")
    if not os.path.abspath(mica.__file__).startswith(site + os.sep):
        wrong.append(f"mica is {mica.__file__}, not the one in {site}")
    files = mapped_files()
    runtimes = sorted(path for path in files if OPENMP.search(path))
    print(f"  mica     {mica.__file__}")
    print(f"  OpenMP   {', '.join(runtimes)}")
    if len(runtimes) != 1:
        wrong.append(f"{len(runtimes)} OpenMP runtimes")
    wrong += [f"{path} is loaded" for path in files if BUILDS.search(path)]
    return wrong


def difference(train: bool) -> tuple[float, int]:
    """Of three runs of a small net to eager's: at most, and runs served."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.GELU(), torch.nn.Flatten()
    )
    head = torch.nn.Linear(8 * 6 * 6, 10)
    images, labels = torch.randn(16, 1, 8, 8), torch.arange(16) % 10

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(head(net(x)), y)
        if not train:
            return loss
        return torch.autograd.grad(loss, head.weight)[0]

    fast = mica.compile(step)
    worst = 0.0
    for _ in range(3):
        with torch.set_grad_enabled(train):
            off = (fast(images, labels) - step(images, labels)).abs().max()
        worst = max(worst, off.item())
    return worst, mica.explain(fast).hits


def main() -> int:
    """Runs all; returns the exit status."""
    wrong = []
    for name, train in (("a model", False), ("its gradient", True)):
        worst, hits = difference(train)
        print(f"  {name}: {hits} runs served, {worst:.1e} from eager's at most")
        if hits < 2:
            wrong.append(f"of {name} {hits} runs were served")
        if not worst < 1e-5:
            wrong.append(f"{name} is {worst:.1e} from eager's")
    wrong += check_files()
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
