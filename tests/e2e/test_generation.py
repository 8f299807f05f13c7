"""transformers' generate() with a compiled forward: eager's tokens, from hits.

Skipped by name where transformers isn't installed; tools/test.sh installs it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

import mica
from vision_operators import define_vision_operators

define_vision_operators()

pytestmark = pytest.mark.filterwarnings("ignore")

BIN = Path(
    os.environ.get(
        "MICA_BIN", Path(__file__).resolve().parents[2] / "build" / "bin"
    )
)
SIZES = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": None}


def make(family):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    layers = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_layer=3, n_embd=32, n_head=4, **SIZES
        )
        model = transformers.GPT2LMHeadModel(config)
    elif family == "llama":
        config = transformers.LlamaConfig(**layers, **SIZES)
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.Qwen2Config(**layers, **SIZES)
        model = transformers.Qwen2ForCausalLM(config)
    model.eval()
    model.generation_config.pad_token_id = 0
    return model


WAYS = {
    "dynamic": {},
    "static": {"cache_implementation": "static", "disable_compile": True},
    "beams": {"num_beams": 3},
    "sampling": {"do_sample": True, "top_k": 20},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2"])
def test_tokens_are_eagers(family, way):
    model = make(family)
    prompts = [torch.randint(2, 100, (2, length)) for length in (7, 7, 7, 5, 9)]

    def generate(prompt, seed):
        torch.manual_seed(seed)
        settings = {"do_sample": False, **WAYS[way]}
        with torch.no_grad():
            return model.generate(prompt, max_new_tokens=24, **settings)

    wanted = [generate(prompt, i) for i, prompt in enumerate(prompts)]
    compiled = mica.compile(model.forward)
    model.forward = compiled
    hits = []
    for i, (prompt, want) in enumerate(zip(prompts, wanted, strict=True)):
        assert torch.equal(generate(prompt, i), want)
        hits.append(mica.explain(compiled).hits)
    if way in ("dynamic", "static"):
        # By then all is known but the prompt's own length.
        assert hits[2] - hits[1] >= 23, str(mica.explain(compiled))
        # The first prompt; a further token, and one more for any length.
        assert hits[0] >= 21, str(mica.explain(compiled))
        assert mica.explain(compiled).split_calls == 0


@pytest.mark.skipif(
    not (BIN / "mica_generate").exists(), reason="the tools are not built"
)
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_mica_generate_gives_the_same_tokens(family, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make(family)
    cache = transformers.StaticCache(config=model.config, max_cache_len=64)

    def step(ids, places):
        told = model(
            input_ids=ids,
            position_ids=places[None],
            past_key_values=cache,
            use_cache=True,
        )
        return told.logits[:, -1]

    def example(count):
        return torch.randint(2, 100, (1, count)), torch.arange(count)

    with torch.no_grad():
        mica.export(step, example(1), tmp_path / "step", reset=cache.reset)
        mica.export(
            step,
            example(8),
            tmp_path / "prompt",
            reset=cache.reset,
            dynamic_shapes={"ids": {1: "n"}, "places": {0: "n"}},
        )
    for length in (1, 5, 8, 13):
        prompt = torch.randint(2, 100, (1, length))
        with torch.no_grad():
            want = model.generate(prompt, max_new_tokens=20, do_sample=False)
        made = subprocess.run(
            [
                str(BIN / "mica_generate"),
                f"--step={tmp_path / 'step'}",
                f"--prompt={tmp_path / 'prompt'}",
                f"--tokens={','.join(map(str, prompt[0].tolist()))}",
                "--max_new_tokens=20",
                "--json",
            ],
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        told = json.loads(made.stdout)
        assert told["tokens"] == want[0, length:].tolist()
        assert told["packed"]
