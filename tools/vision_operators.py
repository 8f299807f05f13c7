"""A torchvision whose compiled half doesn't load beside this torch."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any

import torch

# Definitions last as long as their library object.
_LIBRARIES: list[Any] = []


def define_vision_operators() -> None:
    """Lets torchvision be imported where its compiled operators don't load.

    A torchvision built for another torch has Python parts that name operators
    which its library would have brought. The models need none of them. Call it
    before the first import of torchvision, timm or transformers.
    """
    site = Path(sysconfig.get_paths()["purelib"]) / "torchvision"
    if _LIBRARIES or not site.is_dir():
        return
    # torch leaves these three without types.
    library_class: Any = torch.library.Library
    load_library: Any = torch.ops.load_library
    library = library_class("torchvision", "FRAGMENT")
    _LIBRARIES.append(library)
    for path in site.glob("_C*.so"):
        try:
            load_library(str(path))
            return
        except OSError:
            continue
    pattern = (
        r"(?:register_fake|register_meta|impl)\(\s*\"(?:torchvision::)?(\w+)"
    )
    text = (site / "_meta_registrations.py").read_text()
    for name in sorted(set(re.findall(pattern, text))):
        library.define(f"{name}(Tensor x) -> Tensor")
