"""Exceptions of the package's own."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A program can't be captured as one graph; says why and where."""


class CheckError(RuntimeError):
    """Under the stance "check", a record did something else than eager."""

    # What eager returned, or raised: a program in pieces goes on with that.
    _mica_returned: object
    _mica_raised: BaseException
