"""What may be wrong with a program from elsewhere."""

from __future__ import annotations

from typing import Any

WHO = "mica.from_onnx"


def package() -> Any:
    """Returns the package onnx, which only imports of ONNX files need.

    Raises:
      RuntimeError: It isn't installed.
    """
    try:
        import onnx
        import onnx.shape_inference  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            f"{WHO}: ONNX files need the package onnx, which isn't installed"
        ) from error
    return onnx
