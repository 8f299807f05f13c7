"""What tells an archive of torch.export from other files."""

from __future__ import annotations

import os

_START = b"PK\x03\x04"  # A zip file's.


def is_archive(file: str | os.PathLike[str]) -> bool:
    """True if the file begins as an archive does.

    Raises:
      OSError: It can't be read.
    """
    with open(file, "rb") as stream:
        return stream.read(len(_START)) == _START
