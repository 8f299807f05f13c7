"""Exceptions of the package's own."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A program can't be captured as one graph; says why and where."""


class CheckError(RuntimeError):
    """Under the stance "check", a record did something else than eager."""
