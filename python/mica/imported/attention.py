"""Attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator
from mica.imported.tensors import DTYPES

Tensor = torch.Tensor
_HIDDEN = float("-inf")


def _heads(x: Tensor, count: int | None) -> Tensor:
    """[batch, heads, length, head size] of that or [batch, length, hidden]."""
    if x.dim() == 4:
        return x
    n, length, hidden = x.shape
    assert count is not None
    return x.reshape(n, length, count, hidden // count).transpose(1, 2)


def _offset(q: Tensor, past: Tensor | None, lengths: Tensor | None) -> Any:
    """How many keys come before the first query."""
    if past is not None:
        return past.shape[2]
    if lengths is not None:
        return (lengths.reshape(-1, 1, 1, 1) - q.shape[2]).to(torch.int64)
    return 0


def _allowed(
    q: Tensor,
    k: Tensor,
    offset: Any,
    is_causal: int,
    left: int,
    right: int,
    lengths: Tensor | None,
) -> Any:
    """Which keys a query may see besides the mask's; None for all."""
    parts = []
    keys = torch.arange(k.shape[2])
    behind = torch.arange(q.shape[2])[:, None] + offset - keys
    if is_causal:
        parts.append(behind >= 0)
    if left >= 0:
        parts.append(behind <= left)
    if right >= 0:
        parts.append(-behind <= right)
    if lengths is not None:
        parts.append(keys < lengths.reshape(-1, 1, 1, 1))
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result


def _bias(
    q: Tensor, k: Tensor, mask: Tensor | None, allowed: Tensor | None
) -> Tensor | None:
    """What is added to the scores."""
    if mask is not None and mask.shape[-1] < k.shape[2]:
        fill: Any = False if mask.dtype == torch.bool else _HIDDEN
        mask = F.pad(mask, (0, k.shape[2] - mask.shape[-1]), value=fill)
    if mask is None and allowed is None:
        return None
    zero = torch.zeros((), dtype=q.dtype)
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, zero, _HIDDEN)
    if allowed is None:
        return mask
    barrier = torch.where(allowed, zero, _HIDDEN)
    return barrier if mask is None else mask + barrier


@operator("Attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int,
) -> Any:
    """F.scaled_dot_product_attention, with caches, windows and caps."""
    rank = q.dim()
    q = _heads(q, q_num_heads)
    k, v = _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    if past_key is not None and past_value is not None:
        k = torch.cat([past_key, k], 2)
        v = torch.cat([past_value, v], 2)
    present = (k, v)
    if k.shape[1] != q.shape[1]:
        times = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(times, 1) for x in (k, v))
    left, right = left_window_size, right_window_size
    is_open = lengths is None and left < 0 and right < 0
    plain = outputs < 4 and softcap == 0.0 and softmax_precision is None
    scores, bias, by_torch = None, None, False
    if plain and mask is None and is_open and past_key is None:
        by_torch = bool(is_causal)
    else:
        offset = _offset(q, past_key, lengths)
        allowed = _allowed(q, k, offset, is_causal, left, right, lengths)
        bias = _bias(q, k, mask, allowed)
    if plain:
        made = F.scaled_dot_product_attention(
            q, k, v, bias, 0.0, by_torch, scale=scale
        )
    else:
        way = (scale, softcap, softmax_precision, qk_matmul_output_mode)
        made, scores = _spelled_out(q, k, v, bias, *way)
    if rank == 3:
        made = made.transpose(1, 2).flatten(2)
    return made if outputs == 1 else (made, *present, scores)[:outputs]


def _spelled_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scale: float | None,
    softcap: float,
    precision: int | None,
    mode: int,
) -> tuple[Tensor, Tensor]:
    """The attention, and the scores after as many steps as `mode` says."""
    factor = (q.shape[3] ** -0.5 if scale is None else scale) ** 0.5
    scores = (q * factor) @ (k * factor).transpose(2, 3)
    shown = scores
    if softcap != 0.0:
        scores = softcap * torch.tanh(scores / softcap)
    shown = scores if mode == 1 else shown
    if bias is not None:
        scores = scores + bias
    shown = scores if mode == 2 else shown
    dtype = q.dtype if precision is None else DTYPES[precision]
    shares = torch.softmax(scores.to(dtype), -1)
    if bias is not None:
        hidden = bias.amax(-1, True) == _HIDDEN
        shares = torch.where(hidden, 0.0, shares)
    shares = shares.to(q.dtype)
    return shares @ v, shares if mode == 3 else shown


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    places: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Parts of heads turned by angles."""
    rank = x.dim()
    heads = _heads(x, num_heads)
    size = rotary_embedding_dim or heads.shape[3]
    turned, rest = heads[..., :size], heads[..., size:]
    if places is not None:
        cos, sin = (t[places.to(torch.int64)] for t in (cos, sin))
    cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned.chunk(2, -1)
    pair = [cos * a - sin * b, sin * a + cos * b]
    if interleaved:
        made = torch.stack(pair, -1).flatten(-2)
    else:
        made = torch.cat(pair, -1)
    if size < heads.shape[3]:
        made = torch.cat([made, rest], -1)
    return made.transpose(1, 2).flatten(2) if rank == 3 else made


@operator("Attention", domain="mica", sizes=(4, 5))
def products(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    between: tuple[int, ...] | None = None,
    after: tuple[int, ...] | None = None,
    *,
    head_size: int,
    is_safe: int,
    scale: float,
) -> Tensor:
    """What two products and a softmax do, as `patterns` finds them.

    With NaNs made zero, rows of which all is masked are zero, as torch's are.

    Args:
      q: The queries.
      k: The keys.
      v: The values.
      mask: What is added to the scores.
      between: Sizes of the keys with all dims but the last two merged.
      after: Sizes of the keys behind that, with their last two dims swapped.
      head_size: The size of heads for which the scale is the usual one.
      is_safe: If 1, NaNs of the softmax become zero.
      scale: What the scores are multiplied by.
    """
    if _is_torchs(q, k, v, mask) and _swaps(k, between, after):
        usual = q.shape[3] == head_size
        return F.scaled_dot_product_attention(
            q, k, v, mask, scale=None if usual else scale
        )
    if between is not None and after is not None:
        turned = k.reshape(between).transpose(1, 2).reshape(after)
    else:
        turned = k.transpose(2, 3)
    scores = (q * scale) @ turned
    shares = torch.softmax(scores if mask is None else scores + mask, -1)
    if is_safe:
        shares = torch.where(torch.isnan(shares), 0.0, shares)
    return shares @ v


def _is_torchs(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """True if the tensors have sizes that torch's attention takes."""
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        return False
    if mask is not None and (mask.dim() < 2 or mask.dtype != q.dtype):
        return False
    for x in (k, v):
        if x.shape[0] != q.shape[0] or x.shape[1] != q.shape[1]:
            return False
    return True


def _swaps(
    k: Tensor, between: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> bool:
    """True if reshapes around a transpose swap the last two dims."""
    if between is None or after is None:
        return True
    n, h, s, d = k.shape
    if len(between) != 3 or between[1] != s or between[2] != d:
        return False
    if len(after) != 4:
        return False
    for size, wanted in zip(after, (n, h, d, s), strict=True):
        if size not in (wanted, -1):
            return False
    return True
