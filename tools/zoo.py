"""The models that benchmarks and tests run: random weights, no downloads.

Each Entry builds a model in its published size or in a small one, and inputs
for a batch and a length (tokens for text and sequences; ignored by images).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from vision_operators import define_vision_operators

Size = Literal["full", "small"]
Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Entry:
    """One model.

    Attributes:
      name: As tables show it.
      family: "text", "vision" or "recurrent".
      build: Makes the module in eval mode, weights from the global seed.
      inputs: Positional and keyword arguments for (size, batch, length).
      lengths: Two lengths of sequences at which the full model is run; one
        for images.
      is_variant: Of another entry, for tests alone.
    """

    name: str
    family: str
    build: Callable[[Size], Any]
    inputs: Callable[[Size, int, int], Inputs]
    lengths: tuple[int, ...] = (128, 64)
    is_variant: bool = False

    def make(self, size: Size = "full") -> torch.nn.Module:
        """Returns the module in eval mode; the same weights at each call."""
        define_vision_operators()
        torch.manual_seed(0)
        model: torch.nn.Module = self.build(size).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if not parameter.any():  # Some heads start at zero.
                    parameter.normal_(std=0.02)
        return model


def _tokens(vocabulary: int) -> Callable[[Size, int, int], Inputs]:
    def make(size: Size, batch: int, length: int) -> Inputs:
        limit = vocabulary if size == "full" else 50
        generator = torch.Generator().manual_seed(batch * 1000 + length)
        ids = torch.randint(0, limit, (batch, length), generator=generator)
        return (ids,), {}

    return make


def _image(pixels: int, small: int) -> Callable[[Size, int, int], Inputs]:
    def make(size: Size, batch: int, length: int) -> Inputs:
        del length
        side = pixels if size == "full" else small
        generator = torch.Generator().manual_seed(batch)
        shape = (batch, 3, side, side)
        return (torch.randn(shape, generator=generator),), {}

    return make


def _sequence(features: int) -> Callable[[Size, int, int], Inputs]:
    def make(size: Size, batch: int, length: int) -> Inputs:
        width = features if size == "full" else 16
        generator = torch.Generator().manual_seed(batch * 1000 + length)
        shape = (batch, length, width)
        return (torch.randn(shape, generator=generator),), {}

    return make


def _bert(size: Size) -> Any:
    import transformers

    config = transformers.BertConfig()
    if size == "small":
        config = transformers.BertConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
        )
    return transformers.BertModel(config)


def _bert_narrow(size: Size) -> Any:
    import transformers

    return transformers.BertModel(
        transformers.BertConfig(
            vocab_size=50 if size == "small" else 1000,
            hidden_size=64,
            num_hidden_layers=12,
            num_attention_heads=4,
            intermediate_size=256,
        )
    )


def _distilbert(size: Size) -> Any:
    import transformers

    config = transformers.DistilBertConfig()
    if size == "small":
        config = transformers.DistilBertConfig(
            vocab_size=50,
            dim=32,
            n_layers=2,
            n_heads=2,
            hidden_dim=64,
            max_position_embeddings=64,
        )
    return transformers.DistilBertModel(config)


def _albert(size: Size) -> Any:
    import transformers

    config = transformers.AlbertConfig(
        hidden_size=768, num_attention_heads=12, intermediate_size=3072
    )
    if size == "small":
        config = transformers.AlbertConfig(
            vocab_size=50,
            embedding_size=16,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
        )
    return transformers.AlbertModel(config)


def _gpt2_config(size: Size, use_cache: bool) -> Any:
    import transformers

    if size == "full":
        return transformers.GPT2Config(use_cache=use_cache)
    return transformers.GPT2Config(
        vocab_size=50,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        use_cache=use_cache,
    )


def _gpt2(size: Size) -> Any:
    import transformers

    return transformers.GPT2Model(_gpt2_config(size, use_cache=False))


def _gpt2_cache(size: Size) -> Any:
    import transformers

    return transformers.GPT2Model(_gpt2_config(size, use_cache=True))


def _gpt2_lm(size: Size) -> Any:
    import transformers

    return transformers.GPT2LMHeadModel(_gpt2_config(size, use_cache=True))


def _t5(size: Size) -> Any:
    import transformers

    config = transformers.T5Config()
    if size == "small":
        config = transformers.T5Config(
            vocab_size=50,
            d_model=32,
            d_kv=16,
            d_ff=64,
            num_layers=2,
            num_heads=2,
        )
    return transformers.T5EncoderModel(config)


def torchvision_model(name: str) -> Callable[[Size], Any]:
    """Returns the builder of one of torchvision's models, by its name there."""

    def build(size: Size) -> Any:
        models = importlib.import_module("torchvision.models")
        if name == "vit_b_16" and size == "small":
            return models.VisionTransformer(
                image_size=32,
                patch_size=8,
                num_layers=2,
                num_heads=2,
                hidden_dim=32,
                mlp_dim=64,
                num_classes=500,
            )
        return getattr(models, name)(weights=None)

    return build


def _timm(name: str, **small: Any) -> Callable[[Size], Any]:
    def build(size: Size) -> Any:
        timm = importlib.import_module("timm")
        extra = small if size == "small" else {}
        return timm.create_model(name, pretrained=False, **extra)

    return build


def _recurrent(
    kind: type[torch.nn.LSTM] | type[torch.nn.GRU],
) -> Callable[[Size], torch.nn.Module]:
    def build(size: Size) -> torch.nn.Module:
        width = 256 if size == "full" else 16
        return kind(
            width, width, num_layers=2, bidirectional=True, batch_first=True
        )

    return build


ENTRIES = (
    *(
        Entry(name, "vision", torchvision_model(builder), _image(224, 64), (0,))
        for name, builder in (
            ("ResNet-18", "resnet18"),
            ("ResNet-50", "resnet50"),
            ("MobileNetV2", "mobilenet_v2"),
            ("DenseNet-121", "densenet121"),
            ("EfficientNet-B0", "efficientnet_b0"),
        )
    ),
    Entry(
        "ConvNeXt-tiny",
        "vision",
        _timm("convnext_tiny"),
        _image(224, 64),
        (0,),
    ),
    Entry("BERT-base", "text", _bert, _tokens(30522)),
    Entry("BERT 12x64", "text", _bert_narrow, _tokens(1000)),
    Entry("DistilBERT", "text", _distilbert, _tokens(30522)),
    Entry("ALBERT", "text", _albert, _tokens(30000)),
    Entry("GPT-2", "text", _gpt2, _tokens(50257)),
    Entry("GPT-2 cache", "text", _gpt2_cache, _tokens(50257), is_variant=True),
    Entry("GPT-2 LM", "text", _gpt2_lm, _tokens(50257), is_variant=True),
    Entry("T5-small encoder", "text", _t5, _tokens(32128)),
    Entry("LSTM", "recurrent", _recurrent(torch.nn.LSTM), _sequence(256)),
    Entry("GRU", "recurrent", _recurrent(torch.nn.GRU), _sequence(256)),
    Entry(
        "ViT-B/16",
        "vision",
        torchvision_model("vit_b_16"),
        _image(224, 32),
        (0,),
    ),
    Entry(
        "MLP-Mixer",
        "vision",
        _timm(
            "mixer_b16_224",
            img_size=64,
            num_classes=500,
        ),
        _image(224, 64),
        (0,),
    ),
)
