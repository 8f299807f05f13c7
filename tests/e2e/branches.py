"""A model whose parts can run beside each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Four branches over one image, as an Inception block has them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, size, padding=size // 2),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels, 3, padding=1),
            )
            for size in (1, 3, 5, 7)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)
