#!/usr/bin/env python3
"""Looks for programs that are wrong when exported with sizes left open.

    .venv/bin/python tools/export_fuzz.py --programs 500 --seed 1 --json

Random programs of `size_fuzz.py` are exported with a name for each size that
varies, and run at the sizes of all their calls next to eager. The last line
with --json is one JSON object: `programs`, `exported`, `calls`, `served`,
`refused` (sizes that the exported program says it isn't for), `differences`,
why programs weren't exported, and the `finds`.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

os.environ["MICA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import torch

import mica
from size_fuzzing.case import Case
from size_fuzzing.compare import Difference, same, tensors_of
from size_fuzzing.draw import draw
from size_fuzzing.forks import Died, in_child
from size_fuzzing.worlds import World

_NEAR = 1e-4
_SECONDS = 30  # A program.


def named_dims(
    calls: list[dict[str, Any]],
) -> dict[str, dict[int, str]]:
    """Dims of tensor arguments by name: those that vary and never are 0 or 1.

    Dims that are equal in all calls have one name.
    """
    names: dict[tuple[int, ...], str] = {}
    shapes: dict[str, dict[int, str]] = {}
    for name, first in calls[0].items():
        if not isinstance(first, torch.Tensor):
            continue
        for dim in range(first.dim()):
            sizes = tuple(
                call[name].shape[dim] if call[name].dim() > dim else 0
                for call in calls
            )
            if len(set(sizes)) > 1 and sizes[0] > 1:
                known = names.setdefault(sizes, f"s{len(names)}")
                shapes.setdefault(name, {})[dim] = known
    return shapes


def trial(case: Case) -> dict[str, Any]:
    """What became of a program: counts, why it isn't exported, a difference."""
    told: dict[str, Any] = collections.Counter()
    eager, other = World(case, 1), World(case, 2)
    calls = [eager.arguments(call, i) for i, call in enumerate(case.calls)]
    shapes = named_dims(calls)
    if not shapes or case.train:
        return {"why": "no size varies"}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        try:
            mica.export(
                other.program,
                tuple(other.arguments(case.calls[0], 0).values()),
                folder + "/exported",
                dynamic_shapes=shapes,
            )
        except (NotImplementedError, mica.CaptureError, ValueError) as error:
            return {"why": re.sub(r"\d+(\.\d+)?|/\S+", "N", str(error))[:150]}
        loaded = mica.load(folder + "/exported", num_threads=1)
        told["exported"] = 1
        if loaded._written:
            return {**told, "why": "it writes its state"}
        for index, call in enumerate(case.calls):
            # Arguments may be written, so each twin has its own.
            args = list(World(case, 3).arguments(call, index).values())
            twins = list(World(case, 4).arguments(call, index).values())
            told["calls"] += 1
            try:
                got = loaded(*args)
            except (ValueError, TypeError) as error:
                told["refused"] += 1
                told["refusal"] = re.sub(r"\d+", "N", str(error))[:150]
                continue
            except Exception as error:
                got = error
            try:
                want = World(case, 5).program(*twins)
            except Exception as error:
                want = error
            told["served"] += 1
            try:
                raised = [isinstance(one, Exception) for one in (want, got)]
                if all(raised):
                    continue
                if any(raised):
                    raise Difference("raises", f"{want!r}, mica {got!r}")
                same(plain(want), plain(got), "result", _NEAR)
                same(tensors_of(twins), tensors_of(args), "arguments", _NEAR)
            except Difference as found:
                return {**told, "differs": f"call {index}: {found}"}
    return dict(told)


def plain(value: Any) -> Any:
    """A result as an exported program has it: tuples without names."""
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    return value


def _run(make: Callable[[], Case]) -> dict[str, Any]:
    return trial(make())


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sums: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    finds = []
    numbers = (
        range(options.programs) if options.only is None else [options.only]
    )
    for number in numbers:
        make = functools.partial(draw, options.seed, number, False, False)
        sums["programs"] += 1
        try:
            told, _ = in_child(functools.partial(_run, make), _SECONDS)
        except Died as died:
            told = {"why": f"died {died.number}"}
            if died.number not in (0, 14):
                told["differs"] = f"crash: signal {died.number}"
        if options.only is not None:
            print(in_child(make, _SECONDS)[0])
            print(told)
        for name in ("exported", "calls", "served", "refused"):
            sums[name] += told.get(name, 0)
        for text in (told.get("why"), told.get("refusal")):
            if text:
                reasons[text] += 1
        if "differs" in told:
            finds.append({"number": number, "differs": told["differs"]})
            print(f"=== {options.seed} {number}: {told['differs']}", flush=True)
    for reason, count in reasons.most_common(30):
        print(f"{count:6} {reason}")
    told = {**sums, "differences": len(finds), "finds": finds}
    print(json.dumps(told) if options.json else told)
    return int(bool(finds))


if __name__ == "__main__":
    sys.exit(main())
