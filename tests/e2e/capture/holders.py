"""Objects that hold others, and whether one is gone."""

from __future__ import annotations

import gc


class Holder:
    pass


def holder_of(value):
    holder = Holder()
    holder.value = value
    return holder


def is_dead(ref):
    gc.collect()
    return ref() is None
