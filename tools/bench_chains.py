#!/usr/bin/env python3
"""How much faster than eager are random chains of elementwise operators?

Each chain is 2 to 8 operators, drawn by a seed: functions, arithmetic with a
second tensor, a row of it or a number, comparisons with a choice. Eager and
`mica.compile`, one thread, one process, rounds interleaved; results are
compared before.

    .venv/bin/python tools/bench_chains.py --chains 100 --dtypes f32 bf16

With --reductions each chain has one or two of these among them as well: norms,
means and the like over rows or columns, whose result scales or shifts what goes
on, and softmax.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

import mica
from bench_common import add_json_flag, interleave, write_json

ROUNDS = 5
SECONDS = 0.01  # Of calls in a row.
COMPILING = 0.2  # Seconds in which machine code arrives.
DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
Link = Callable[[Tensor, Tensor, Tensor], Tensor]  # Of x, a tensor and a row.
LINKS: dict[str, Link] = {
    "relu": lambda x, y, r: x.relu(),
    "gelu": lambda x, y, r: functional.gelu(x),
    "silu": lambda x, y, r: functional.silu(x),
    "tanh": lambda x, y, r: x.tanh(),
    "sigmoid": lambda x, y, r: x.sigmoid(),
    "exp of less": lambda x, y, r: (-x.abs()).exp(),
    "log": lambda x, y, r: (x.abs() + 0.1).log(),
    "sqrt": lambda x, y, r: x.abs().sqrt(),
    "sin": lambda x, y, r: x.sin(),
    "cos": lambda x, y, r: x.cos(),
    "erf": lambda x, y, r: x.erf(),
    "add": lambda x, y, r: x + y,
    "mul": lambda x, y, r: x * y,
    "sub": lambda x, y, r: y - x,
    "div": lambda x, y, r: x / (y.abs() + 1),
    "add row": lambda x, y, r: x + r,
    "mul row": lambda x, y, r: x * r,
    "scale": lambda x, y, r: x * 0.5 + 0.1,
    "clamp": lambda x, y, r: x.clamp(-2, 2),
    "where": lambda x, y, r: torch.where(x > y, x, y * 0.1),
    "leaky": lambda x, y, r: functional.leaky_relu(x, 0.1),
    "maximum": lambda x, y, r: torch.maximum(x, r),
    "square": lambda x, y, r: x.clamp(-4, 4) ** 2,
}


def _centred(x: Tensor, dim: int) -> Tensor:
    return x - x.mean(dim, keepdim=True)


def _standardised(x: Tensor, dim: int) -> Tensor:
    return _centred(x, dim) / (x.std(dim, keepdim=True) + 0.1)


def _rooted(x: Tensor, dim: int) -> Tensor:
    return x * torch.rsqrt(x.square().mean(dim, keepdim=True) + 0.1)


def _normalised(x: Tensor, dim: int) -> Tensor:
    return functional.normalize(x, dim=dim) * 10


def _shared(x: Tensor, dim: int) -> Tensor:
    return x / (x.abs().sum(dim, keepdim=True) / 100 + 1)


ALONG: dict[str, Callable[[Tensor, int], Tensor]] = {
    "centred": _centred,
    "standardised": _standardised,
    "root mean square": _rooted,
    "normalised": _normalised,
    "share": _shared,
    "softmax": lambda x, dim: x.softmax(dim) * 100,
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "less logsumexp": lambda x, dim: x - x.logsumexp(dim, keepdim=True),
}


def _along(name: str, dim: int) -> Link:
    return lambda x, y, r: ALONG[name](x, dim)


REDUCTIONS: dict[str, Link] = {
    f"{name} {where}": _along(name, dim)
    for name in ALONG
    for where, dim in {"of rows": -1, "of columns": 0}.items()
}


def chain_of(names: list[str]) -> Link:
    """Returns the program that applies `names` one after the other."""
    links = [(LINKS | REDUCTIONS)[name] for name in names]

    def chain(x: Tensor, y: Tensor, row: Tensor) -> Tensor:
        for link in links:
            x = link(x, y, row)
        return x

    return chain


def draw(drawn: random.Random, reduces: bool) -> list[str]:
    """Returns a chain's names."""
    names = drawn.choices(list(LINKS), k=drawn.randint(2, 8))
    for _ in range(drawn.randint(1, 2) if reduces else 0):
        names[drawn.randrange(len(names))] = drawn.choice(list(REDUCTIONS))
    return names


def measure(
    names: list[str], dtype: torch.dtype, rows: int, columns: int
) -> dict[str, Any]:
    """Returns a chain's figures."""
    torch.manual_seed(0)
    feeds = (
        torch.randn(rows, columns).to(dtype),
        torch.randn(rows, columns).to(dtype),
        torch.randn(columns).to(dtype),
    )
    chain = chain_of(names)
    with torch.no_grad():
        mica.reset()
        compiled = mica.compile(chain)
        for _ in range(3):
            got = compiled(*feeds)
        time.sleep(COMPILING)
        want = chain(*feeds).double()
        scale = want.abs().max().clamp(min=1)
        difference = ((got.double() - want).abs().max() / scale).item()
        seconds = min(
            interleave({"eager": lambda: chain(*feeds)}, 1, 3)["eager"]
        )
        rounds = interleave(
            {
                "eager": lambda: chain(*feeds),
                "mica": lambda: compiled(*feeds),
            },
            ROUNDS,
            max(1, int(SECONDS / seconds)),
        )
    eager, own = min(rounds["eager"]), min(rounds["mica"])
    return {
        "chain": names,
        "elements": rows * columns,
        "ratio": round(own / eager, 3),
        "eager_us": round(eager * 1e6, 1),
        "mica_us": round(own * 1e6, 1),
        "difference": difference,
    }


def main() -> None:
    """Prints each chain that is slower than the bar, then means by dtype."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--chains", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reductions", action="store_true")
    parser.add_argument("--dtypes", nargs="+", default=["f32"], choices=DTYPES)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--bar", type=float, default=0.5)
    add_json_flag(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for name in options.dtypes:
        drawn = random.Random(options.seed)
        chains = [
            draw(drawn, options.reductions) for _ in range(options.chains)
        ]
        rows = [
            measure(chain, DTYPES[name], options.rows, options.columns)
            for chain in tqdm(chains, desc=name, leave=False)
        ]
        for row in sorted(rows, key=lambda row: -row["ratio"]):
            if row["ratio"] > options.bar:
                print(f"{name}: {row['ratio']:.2f}x {', '.join(row['chain'])}")
        logs = [math.log(row["ratio"]) for row in rows]
        figures[name] = {
            "geometric mean": round(math.exp(sum(logs) / len(logs)), 3),
            "over the bar": sum(r["ratio"] > options.bar for r in rows),
            "worst": max(row["ratio"] for row in rows),
            "largest difference": max(row["difference"] for row in rows),
        }
        print(name, figures[name])
        figures[name]["rows"] = rows
    write_json(options.json, figures)


if __name__ == "__main__":
    main()
