#!/usr/bin/env python3
"""How fast does a decoder generate, its forward compiled?

transformers' generate(), greedy, on one thread: GPT-2 of its published size and
decoders of four layers and 128 hidden units, with random weights, dynamic and
static caches. The first prompts, whose calls are watched, are timed one by one;
then eager and Mica take turns. Tokens are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import torch

from bench_common import (
    add_json_flag,
    interleave,
    ratios,
    spread,
    write_json,
)
from vision_operators import define_vision_operators

define_vision_operators()

import transformers  # noqa: E402

import mica  # noqa: E402

PROMPT = 16
FIRST = 3  # Prompts until all is known.
WAYS: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "static": {"cache_implementation": "static", "disable_compile": True},
}


def make(name: str, dtype: torch.dtype) -> Any:
    """Returns a decoder in eval mode, its weights drawn from one seed."""
    torch.manual_seed(0)
    small = {"vocab_size": 1000, "bos_token_id": 1, "eos_token_id": None}
    if name == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    elif name == "gpt2-small":
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_layer=4, n_embd=128, n_head=4, **small)
        )
    else:
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                hidden_size=128,
                intermediate_size=256,
                num_hidden_layers=4,
                num_attention_heads=4,
                **small,
            )
        )
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None
    return model.eval().to(dtype)


def measure(
    name: str, way: str, dtype: torch.dtype, tokens: int, rounds: int
) -> dict[str, Any]:
    """Returns a case's figures."""
    model, twin = make(name, dtype), make(name, dtype)
    compiled: Any = mica.compile(model.forward)
    model.forward = compiled
    prompt = torch.randint(0, 1000, (1, PROMPT))
    settings = {"max_new_tokens": tokens, "do_sample": False, **WAYS[way]}

    def eager() -> torch.Tensor:
        return twin.generate(prompt, **settings)  # type: ignore[no-any-return]

    def served() -> torch.Tensor:
        return model.generate(prompt, **settings)  # type: ignore[no-any-return]

    wanted = eager()
    first, same = [], True
    for _ in range(FIRST):
        start = time.perf_counter()
        same &= torch.equal(served(), wanted)
        first.append(round(time.perf_counter() - start, 3))
    captures = mica.explain(compiled).captures
    seconds = interleave({"eager": eager, "mica": served}, rounds, 1)
    same &= torch.equal(served(), wanted)
    faster = ratios(seconds["eager"], seconds["mica"])
    return {
        "name": f"{name}, {way} cache, {str(dtype).removeprefix('torch.')}",
        "tokens": tokens,
        "same_tokens": same,
        "captures": captures,
        "captures_later": mica.explain(compiled).captures - captures,
        "first_s": first,
        "eager_s": spread(seconds["eager"]),
        "mica_s": spread(seconds["mica"]),
        "times_as_fast": spread(faster),
    }


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json_flag(parser)
    parser.add_argument(
        "--models", nargs="+", default=["gpt2-small", "llama-small", "gpt2"]
    )
    parser.add_argument("--caches", nargs="+", default=list(WAYS))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with torch.no_grad():
        for name in arguments.models:
            for way in arguments.caches:
                row = measure(
                    name,
                    way,
                    getattr(torch, arguments.dtype),
                    arguments.tokens,
                    arguments.rounds,
                )
                rows.append(row)
                rate = row["tokens"] / row["mica_s"]["median"]
                print(
                    f"{row['name']:36} {rate:7.1f} tokens/s, "
                    f"{row['times_as_fast']['median']:.2f} times as fast as "
                    f"eager ({row['times_as_fast']['min']:.2f} to "
                    f"{row['times_as_fast']['max']:.2f}); prompts until then "
                    f"{row['first_s']} s, {row['captures']} captures, "
                    f"{row['captures_later']} later; tokens "
                    f"{'as' if row['same_tokens'] else 'OTHER than'} eager's",
                    flush=True,
                )
    write_json(arguments.json, {"cases": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
