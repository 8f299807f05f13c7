"""Exceptions of the package's own."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A program can't be captured as one graph; says why and where."""


class CheckError(RuntimeError):
    """Under the stance "check", a record did something else than eager."""

    # What eager returned, or raised: a program in pieces goes on with that.
    _mica_returned: object
    _mica_raised: BaseException


class MicaWarning(UserWarning):
    """A compiled callable isn't served as whoever compiled it may think.

    It runs eagerly or in pieces, or each call makes a record anew. Told once
    of each callable, with the reason, at the user's line that is the cause.
    Where a filter of this class makes it an error, it is raised by the next
    call, before that does anything: no call's result is lost. Where a filter
    makes an error of any warning, it is written to stderr, since a compiled
    callable raises what eager raises.
    """
