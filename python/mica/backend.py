"""The backend of `torch.compile(model, backend="mica")`, and what it made.

`explanations()` tells what became of Dynamo's graphs.
"""

from __future__ import annotations

from mica.backends.dynamo import backend, explanations

__all__ = ["backend", "explanations"]
