"""The training steps that benchmarks and tests run: random data, dropout 0.

Each Entry makes a model with its data; `make_step` joins it to an optimizer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from vision_operators import define_vision_operators

Step = Callable[..., torch.Tensor]
Loss = Callable[..., torch.Tensor]

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(
        parameters, lr=0.01, momentum=0.9
    ),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
}


@dataclass(frozen=True)
class Entry:
    """One model to train.

    Attributes:
      name: As tables show it.
      sizes: Model and data, in words.
      build: Makes the model in training mode, weights from the global seed.
      data: One batch, from the global seed.
      loss: Of a model and a batch.
    """

    name: str
    sizes: str
    build: Callable[[], Any]
    data: Callable[[], tuple[torch.Tensor, ...]]
    loss: Loss

    def make_step(self, optimizer: str) -> tuple[torch.nn.Module, Step]:
        """Returns a new model, always with the same weights, and its step.

        The step takes a batch and returns the loss, f32[].
        """
        define_vision_operators()
        torch.manual_seed(0)
        model: torch.nn.Module = self.build().train()
        weights = OPTIMIZERS[optimizer](model.parameters())

        def step(*batch: torch.Tensor) -> torch.Tensor:
            weights.zero_grad()
            loss = self.loss(model, *batch)
            loss.backward()  # type: ignore[no-untyped-call]
            weights.step()
            return loss.detach()

        return model, step

    def batch(self) -> tuple[torch.Tensor, ...]:
        """Returns the batch; the same at each call."""
        torch.manual_seed(1)
        return self.data()


def _classes(
    model: Any, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    return functional.cross_entropy(model(images), labels)


def _text(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(input_ids=ids, labels=labels).loss
    return loss


def _next_token(model: Any, ids: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
    return loss


def _digits_net() -> Any:
    return importlib.import_module("digits").make_net()


def _resnet18() -> Any:
    return importlib.import_module("torchvision.models").resnet18(weights=None)


def bert(
    vocabulary: int, hidden: int, heads: int, inner: int, positions: int = 512
) -> Any:
    """Returns a 4-layer BERT that tells two classes; `inner`: of its MLPs."""
    import transformers

    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=4,
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=positions,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def gpt(vocabulary: int, hidden: int, heads: int, positions: int) -> Any:
    """Returns a 2-layer GPT-2 that predicts the next token."""
    import transformers

    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=vocabulary,
            n_positions=positions,
            n_embd=hidden,
            n_layer=2,
            n_head=heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


ENTRIES = (
    Entry(
        "digits net",
        "batch 32, 8×8",
        _digits_net,
        lambda: (torch.rand(32, 1, 8, 8), torch.randint(0, 10, (32,))),
        _classes,
    ),
    Entry(
        "ResNet-18",
        "batch 4, 64×64",
        _resnet18,
        lambda: (torch.randn(4, 3, 64, 64), torch.randint(0, 1000, (4,))),
        _classes,
    ),
    Entry(
        "BERT, 4 layers",
        "hidden 256, batch 4, 64 tokens",
        lambda: bert(1000, 256, 4, 1024),
        lambda: (torch.randint(0, 1000, (4, 64)), torch.randint(0, 2, (4,))),
        _text,
    ),
    Entry(
        "GPT-2, 2 layers",
        "hidden 128, batch 4, 64 tokens",
        lambda: gpt(1000, 128, 4, 128),
        lambda: (torch.randint(0, 1000, (4, 64)),),
        _next_token,
    ),
)
