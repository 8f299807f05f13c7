#!/usr/bin/env python3
"""Generates text tokens without Python: a transformers decoder is exported.

    .venv/bin/python examples/generate.py --model gpt2-small --tokens 128

Two Programs share weights and a static cache: one takes a prompt of any length,
one takes a token. `mica_generate` goes on with a prompt by them, and so does
eager's `generate()`; tokens are compared. Weights are random; `--pretrained`
takes a model's own, where it is at hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from transformers import AutoModelForCausalLM, StaticCache  # noqa: E402

import mica  # noqa: E402
from bench_generate import PROMPT, make  # noqa: E402

MODELS = ("gpt2", "gpt2-small", "llama")


def export(model: Any, folder: Path, places: int) -> None:
    """Writes the decoder's two Programs.

    Args:
      model: A transformers decoder.
      folder: Where `step` and `prompt` are written.
      places: How long a text may be.
    """
    cache = StaticCache(config=model.config, max_cache_len=places)

    def step(ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        told = model(
            input_ids=ids,
            position_ids=at[None],
            past_key_values=cache,
            use_cache=True,
        )
        logits: torch.Tensor = told.logits
        return logits[:, -1]

    for name, count, shapes in (
        ("step", 1, None),
        ("prompt", PROMPT, {"ids": {1: "n"}, "at": {0: "n"}}),
    ):
        mica.export(
            step,
            (torch.ones(1, count, dtype=torch.long), torch.arange(count)),
            folder / name,
            reset=cache.reset,
            dynamic_shapes=shapes,
        )


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="gpt2-small")
    parser.add_argument("--pretrained", metavar="NAME")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = make(options.model, torch.float32)
    if options.pretrained:
        model = AutoModelForCausalLM.from_pretrained(options.pretrained).eval()
        model.generation_config.eos_token_id = None
    prompt = torch.randint(1, 1000, (1, PROMPT))
    with torch.no_grad(), tempfile.TemporaryDirectory() as name:
        begun = time.perf_counter()
        export(model, Path(name), PROMPT + options.tokens)
        print(f"exported in {time.perf_counter() - begun:.2f} s")
        made = subprocess.run(
            [
                str(ROOT / "build" / "bin" / "mica_generate"),
                f"--step={name}/step",
                f"--prompt={name}/prompt",
                f"--tokens={','.join(map(str, prompt[0].tolist()))}",
                f"--max_new_tokens={options.tokens}",
                f"--threads={options.threads}",
                "--json",
            ],
            capture_output=True,
            text=True,
        )
        if made.returncode != 0:
            print(made.stderr, file=sys.stderr)
            return 1
        told = json.loads(made.stdout)
        print(f"mica_generate: {told['tokens_per_s']:.1f} tokens/s")
        begun = time.perf_counter()
        want = model.generate(
            prompt, max_new_tokens=options.tokens, do_sample=False
        )
        seconds = time.perf_counter() - begun
        print(f"eager: {options.tokens / seconds:.1f} tokens/s")
    same = told["tokens"] == want[0, PROMPT:].tolist()
    print("the same tokens" if same else "OTHER TOKENS")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
