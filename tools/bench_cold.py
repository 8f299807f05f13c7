#!/usr/bin/env python3
"""How long does a model take from its first call until it runs as a Plan?

BERT-base, one sequence of 128 tokens, random weights. The cold cost is the
time of the first two compiled calls less that of two eager calls, which are
warm; the second compiled call is served by the Plan. Where that one is faster
than eager, the cold cost hides a part of what the first call took, down to
below zero: so the first call's own extra time is given beside it. The first
repeat is the figure: it alone pays for what a process sets up once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch

import mica
from bench_common import add_json_flag, write_json
from vision_operators import define_vision_operators

EAGER_CALLS = 5


def make_bert(layers: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Returns a BERT of base size with `layers` layers, and its inputs."""
    define_vision_operators()
    import transformers  # Late: see bench_common.

    torch.manual_seed(0)
    config = transformers.BertConfig(num_hidden_layers=layers)
    model = transformers.BertModel(config).eval()
    ids = torch.randint(1000, config.vocab_size, (1, 128))
    mask = torch.ones_like(ids)
    mask[:, -1] = 0
    return model, {"input_ids": ids, "attention_mask": mask}


def seconds_of(
    call: Callable[..., object], inputs: dict[str, torch.Tensor]
) -> float:
    """Returns the seconds that one call took."""
    start = time.perf_counter()
    call(**inputs)
    return time.perf_counter() - start


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    add_json_flag(parser)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    model, inputs = make_bert(arguments.layers)
    cold, first_extra = [], []
    with torch.no_grad():
        model(**inputs)
        for _ in range(arguments.repeats):
            eager = [seconds_of(model, inputs) for _ in range(EAGER_CALLS)]
            eager_s = statistics.median(eager)
            compiled = mica.compile(model)
            first_s = seconds_of(compiled, inputs)
            second_s = seconds_of(compiled, inputs)
            cold.append(first_s + second_s - 2 * eager_s)
            first_extra.append(first_s - eager_s)
            print(
                f"eager {eager_s:.3f} s ({min(eager):.3f} to {max(eager):.3f}),"
                f" Mica's first call {first_s:.3f} s, second {second_s:.3f} s; "
                f"cold cost {cold[-1]:.3f} s, first call's extra "
                f"{first_extra[-1]:.3f} s"
            )
    report = mica.explain(compiled)
    print(f"{len(report.graphs)} graphs, {report.hits} hits")
    if report.hits != 1 or report.refusals:
        print(report)
        return 1
    write_json(
        arguments.json,
        {
            "layers": arguments.layers,
            "cold_s": round(cold[0], 4),
            "cold_s_by_repeat": [round(value, 4) for value in cold],
            "first_call_extra_s": round(first_extra[0], 4),
            "first_call_extra_s_by_repeat": [
                round(value, 4) for value in first_extra
            ],
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
