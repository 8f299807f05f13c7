"""All families of operators: importing this fills the table."""

from __future__ import annotations

from mica.imported import (  # noqa: F401
    attention,
    convolutions,
    detection,
    elementwise,
    images,
    indexing,
    joins,
    losses,
    matrices,
    normalisation,
    numbers,
    pooling,
    quantised,
    random,
    recurrent,
    reductions,
    resizing,
    sequences,
    shapes,
    signals,
)
