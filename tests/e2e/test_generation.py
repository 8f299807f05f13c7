"""transformers' generate() with a compiled forward: eager's tokens, from hits.

Skipped by name where transformers isn't installed; tools/test.sh installs it.
"""

from __future__ import annotations

import pytest
import torch

import mica
from vision_operators import define_vision_operators

define_vision_operators()

pytestmark = pytest.mark.filterwarnings("ignore")

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
