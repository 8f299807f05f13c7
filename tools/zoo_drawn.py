"""Models that nobody chose: drawn by a seed from three libraries.

From timm and torchvision any image classifier may come, in the size of its
pictures; from transformers an encoder or decoder by its default configuration,
with fewer layers. Weights are random; what starts as a constant (norms, biases,
scales of layers, running statistics) is drawn, too, so that wrong numbers show.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from vision_operators import define_vision_operators
from zoo import Entry, Inputs, Size

# Larger ones take too long to be called so often.
MOST_PARAMETERS = 90_000_000
MOST_PIXELS = 384

# How many of a hundred models come from each library.
SHARES = {"timm": 60, "torchvision": 20, "transformers": 20}

# Kinds of transformers' configurations: those of texts, and those of pictures.
TEXTS = [
    "albert",
    "bert",
    "big_bird",
    "bloom",
    "camembert",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "fnet",
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "ibert",
    "llama",
    "mistral",
    "mobilebert",
    "mpnet",
    "nystromformer",
    "openai-gpt",
    "opt",
    "phi",
    "qwen2",
    "qwen3",
    "rembert",
    "roberta",
    "roformer",
    "squeezebert",
    "stablelm",
    "t5",
    "xglm",
    "xlm",
    "xlm-roberta",
    "xlnet",
]
PICTURES = [
    "beit",
    "bit",
    "convnext",
    "convnextv2",
    "data2vec-vision",
    "deit",
    "dinov2",
    "dinat",
    "efficientnet",
    "focalnet",
    "hiera",
    "ijepa",
    "levit",
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilevit",
    "mobilevitv2",
    "poolformer",
    "pvt",
    "pvt_v2",
    "regnet",
    "resnet",
    "segformer",
    "swiftformer",
    "swin",
    "swinv2",
    "textnet",
    "vit",
    "vit_msn",
]
# Decoders' defaults are of billions of parameters.
SMALLER = {
    "num_hidden_layers": 4,
    "num_layers": 4,
    "n_layer": 4,
    "n_layers": 4,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "hidden_size": 768,
    "n_embd": 768,
    "d_model": 768,
    "intermediate_size": 3072,
    "vocab_size": 30000,
}


class TooLargeError(ValueError):
    """A model that isn't measured."""


def _fill_constants(model: torch.nn.Module) -> None:
    """Draws what an initialisation leaves constant."""
    generator = torch.Generator().manual_seed(1)

    def noise(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator)

    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        if name.endswith("running_var"):
            tensor.data.add_(noise(tensor).abs(), alpha=0.2)
        elif name.endswith("running_mean"):
            tensor.data.add_(noise(tensor), alpha=0.1)
        elif isinstance(tensor, torch.nn.Parameter) and bool(
            (tensor == tensor.flatten()[0]).all()
        ):
            # A layer's scale of 1e-6 would hide the layer.
            if 0 < float(tensor.flatten()[0].abs()) < 0.1:
                tensor.data.fill_(0.3)
            tensor.data.add_(noise(tensor), alpha=0.05)


def _checked(model: torch.nn.Module) -> torch.nn.Module:
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MOST_PARAMETERS:
        raise TooLargeError(f"{count} parameters")
    with torch.no_grad():
        _fill_constants(model)
    return model


def _image_inputs(pixels: int) -> Callable[[Size, int, int], Inputs]:
    def make(size: Size, batch: int, length: int) -> Inputs:
        del size, length
        generator = torch.Generator().manual_seed(batch)
        shape = (batch, 3, pixels, pixels)
        return (torch.randn(shape, generator=generator),), {}

    return make


def _token_inputs(size: Size, batch: int, length: int) -> Inputs:
    del size
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    # Ids that every vocabulary has, and that end or pad none.
    ids = torch.randint(200, 1000, (batch, length), generator=generator)
    return (ids,), {}


def _timm_entry(name: str) -> Entry:
    timm = importlib.import_module("timm")
    config = timm.get_pretrained_cfg(name)
    pixels = config.input_size[-1] if config is not None else 224
    if pixels > MOST_PIXELS:
        raise TooLargeError(f"pictures of {pixels} pixels")

    def build(size: Size) -> Any:
        del size
        return _checked(timm.create_model(name, pretrained=False))

    return Entry(f"timm {name}", "vision", build, _image_inputs(pixels), (0,))


def _torchvision_entry(name: str) -> Entry:
    models = importlib.import_module("torchvision.models")

    def build(size: Size) -> Any:
        del size
        return _checked(models.get_model(name, weights=None))

    pixels = 299 if name == "inception_v3" else 224
    return Entry(
        f"torchvision {name}", "vision", build, _image_inputs(pixels), (0,)
    )


def _transformers_entry(name: str) -> Entry:
    transformers = importlib.import_module("transformers")

    def build(size: Size) -> Any:
        del size
        config = transformers.AutoConfig.for_model(name)
        if name in TEXTS:
            for field, most in SMALLER.items():
                value = getattr(config, field, None)
                if isinstance(value, int) and value > most:
                    setattr(config, field, most)
            config.use_cache = False
            if name == "t5":
                return _checked(transformers.T5EncoderModel(config))
        return _checked(transformers.AutoModel.from_config(config))

    if name in TEXTS:
        return Entry(f"transformers {name}", "text", build, _token_inputs)
    config = transformers.AutoConfig.for_model(name)
    pixels = getattr(config, "image_size", 224)
    if not isinstance(pixels, int):
        pixels = pixels[-1]
    if pixels > MOST_PIXELS:
        pixels = 224
    return Entry(
        f"transformers {name}", "vision", build, _image_inputs(pixels), (0,)
    )


def _names(library: str) -> list[str]:
    if library == "timm":
        return list(importlib.import_module("timm").list_models())
    if library == "torchvision":
        models = importlib.import_module("torchvision.models")
        return list(models.list_models(module=models))
    return [*TEXTS, *PICTURES]


MAKERS = {
    "timm": _timm_entry,
    "torchvision": _torchvision_entry,
    "transformers": _transformers_entry,
}


def named(name: str) -> Entry:
    """Returns the entry of a name that draw() gave: library and model."""
    define_vision_operators()
    library, _, model = name.partition(" ")
    return MAKERS[library](model)


def draw(seed: int) -> Iterator[Entry]:
    """Yields models without end of the libraries, in the order of `seed`.

    One that turns out too large raises when it is made; see TooLargeError.
    """
    define_vision_operators()
    source = random.Random(seed)
    pools = {library: sorted(_names(library)) for library in SHARES}
    for pool in pools.values():
        source.shuffle(pool)
    while any(pools.values()):
        library = source.choices(list(SHARES), list(SHARES.values()))[0]
        if not pools[library]:
            continue
        try:
            yield MAKERS[library](pools[library].pop())
        except TooLargeError:
            continue
