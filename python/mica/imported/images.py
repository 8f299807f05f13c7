"""Files of images as tensors."""

from __future__ import annotations

import io

import torch

from mica.imported.errors import WHO
from mica.imported.registry import operator

Tensor = torch.Tensor


@operator("ImageDecoder")
def decode_image(data: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """The pixels of an image's file: uint8[height, width, channels]."""
    try:
        from PIL import Image
    except ImportError as error:
        raise RuntimeError(
            f"{WHO}: ImageDecoder needs the package pillow, which isn't "
            "installed"
        ) from error
    mode = "L" if pixel_format == "Grayscale" else "RGB"
    file = Image.open(io.BytesIO(bytes(data.tolist())))
    image = file.convert(mode)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    pixels = pixels.reshape(image.height, image.width, -1)
    return pixels.flip(2) if pixel_format == "BGR" else pixels
