"""Losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator

Tensor = torch.Tensor

# A class that no target has.
_NONE = -100


@operator("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """F.nll_loss."""
    ignored = _NONE if ignore_index is None else ignore_index
    return F.nll_loss(
        x,
        target.to(torch.int64),
        weight,
        ignore_index=ignored,
        reduction=reduction,
    )


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int,
) -> Any:
    """F.cross_entropy; also the logarithms of probabilities."""
    logs = torch.log_softmax(scores, 1)
    loss = nll_loss(
        logs, labels, weights, ignore_index=ignore_index, reduction=reduction
    )
    return loss if outputs == 1 else (loss, logs)
