"""Prints the polynomials of kernels/region's trigonometric and gamma functions.

Run: python tools/fit_special_functions.py [name ...]. Needs mpmath.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mpmath import mp, mpf

from fit_functions import Fit, fitted, rounded

HALF, QUARTER = mpf(1) / 2, mpf(1) / 4
# An eighth of a turn, and what rounding adds.
MOST_ANGLE = mp.pi / 4 * (1 + mpf(2) ** -10)
LINE = 1 - mp.euler  # lgamma(2 + t) = LINE t + CURVE t t + ...
CURVE = (mp.zeta(2) - 1) / 2
ROOT = mp.findroot(mp.digamma, mpf("1.4616321449683623"))
HALF_LOG_2PI = mp.log(2 * mp.pi) / 2
CENTRE = mp.sqrt(mp.pi) / 2  # erfinv(x) = CENTRE x + CENTRE^3 / 3 x^3 + ...
MOST_CENTRE = mpf("0.7025")
SHIFT = mpf("1.375")


def of_root(f: Callable[[mpf], mpf]) -> Callable[[mpf], mpf]:
    """f(sqrt(z)) as a function of z."""
    return lambda z: f(mp.sqrt(z))


def odd_tail(f: Callable[[mpf], mpf], x: mpf) -> mpf:
    """What f(x) has beside x, over x^3."""
    return (f(x) - x) / x**3


def odd(
    f: Callable[[mpf], mpf], low: mpf, high: mpf, terms: tuple[int, int]
) -> Fit:
    """p(z) of f(x) = x + x z p(z), z = x x."""
    return Fit(
        of_root(lambda x: odd_tail(f, x)),
        of_root(lambda x: x**3 / f(x)),
        low**2,
        high**2,
        terms,
    )


def stirling(x: mpf) -> mpf:
    """lgamma(x) less what is known of Stirling's series, times x."""
    return (mp.loggamma(x) - ((x - HALF) * mp.log(x) - x + HALF_LOG_2PI)) * x


def digamma_slope(t: mpf) -> mpf:
    """digamma(x) / (x - ROOT) of x = t + 1.7."""
    return mp.digamma(t + mpf("1.7")) / (t + mpf("1.7") - ROOT)


def cot_pi(r: mpf) -> mpf:
    """Returns pi cot(pi r)."""
    return mp.pi * mp.cot(mp.pi * r)


def tan_pi(u: mpf) -> mpf:
    """Returns pi tan(pi u)."""
    return mp.pi * mp.tan(mp.pi * u)


@cache
def erfinv_centre(z: mpf) -> mpf:
    """What erfinv(x) / x has beside its first two terms, over z z."""
    x = mp.sqrt(z)
    return (mp.erfinv(x) / x - CENTRE - CENTRE**3 / 3 * z) / z**2


def centre_weight(z: mpf) -> mpf:
    """The weight of erfinv_centre."""
    return z**2 / (CENTRE + CENTRE**3 / 3 * z + erfinv_centre(z) * z**2)


@cache
def erfinv_of_v(v: mpf) -> mpf:
    """erfinv(1 - 2 exp(-v v))."""
    return mp.erfinv(1 - 2 * mp.exp(-v * v))


def erfinv_tail(v: mpf) -> mpf:
    """erfinv_of_v less a line near to it."""
    return erfinv_of_v(v) - (9 * v / 8 - mpf(13) / 16)


TINY = mpf(10) ** -4
LOWEST_V = mp.sqrt(-mp.log(mpf("0.15"))) * mpf("0.9995")

FITS = {
    "sin": odd(mp.sin, TINY, MOST_ANGLE, (3, 6)),
    # cos(r) = 1 - z / 2 + z z p(z), z = r r.
    "cos": Fit(
        of_root(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4),
        of_root(lambda r: r**4 / mp.cos(r)),
        TINY**2,
        MOST_ANGLE**2,
        (3, 6),
    ),
    "asin": odd(mp.asin, TINY, HALF, (5, 13)),
    # atan(q) = q + q z p(z - 1/2), z = q q.
    "atan": Fit(
        lambda t: odd_tail(mp.atan, mp.sqrt(t + HALF)),
        lambda t: mp.sqrt(t + HALF) ** 3 / mp.atan(mp.sqrt(t + HALF)),
        TINY - HALF,
        HALF,
        (9, 20),
    ),
    # lgamma(2 + t) = LINE t + CURVE t t + t t t p(t).
    "lgamma": Fit(
        lambda t: (mp.loggamma(2 + t) - LINE * t - CURVE * t**2) / t**3,
        lambda t: t**3 / mp.loggamma(2 + t),
        -HALF,
        HALF,
        (7, 17),
    ),
    # lgamma(x) = (x - 1/2) log(x) - x + log(2 pi) / 2 + p(1 / (x x)) / x.
    "stirling": Fit(
        lambda z: stirling(1 / mp.sqrt(z)),
        lambda z: mp.sqrt(z) / mp.loggamma(1 / mp.sqrt(z)),
        mpf(10) ** -8,
        1 / mpf("4.5") ** 2,
        (3, 9),
    ),
    # digamma(x) = (x - ROOT) p(x - 1.7).
    "digamma": Fit(
        digamma_slope, lambda t: 1 / digamma_slope(t), -HALF, HALF, (10, 21)
    ),
    # digamma(x) = log(x) - 1 / (2 x) - z p(z), z = 1 / (x x).
    "digamma_tail": Fit(
        lambda z: (
            (-mp.log(z) / 2 - mp.sqrt(z) / 2 - mp.digamma(1 / mp.sqrt(z))) / z
        ),
        lambda z: z / mp.digamma(1 / mp.sqrt(z)),
        mpf(10) ** -8,
        1 / mpf("4.2") ** 2,
        (3, 9),
    ),
    # sin(pi r) / r = pi - pi^3 / 6 z + z z p(z), z = r r.
    "sin_pi": Fit(
        of_root(
            lambda r: (
                (mp.sin(mp.pi * r) / r - mp.pi + mp.pi**3 / 6 * r**2) / r**4
            )
        ),
        of_root(lambda r: r**5 / mp.sin(mp.pi * r)),
        mpf(10) ** -6,
        QUARTER**2,
        (3, 6),
    ),
    # cos(pi u) = 1 - pi^2 / 2 z + z z p(z), z = u u.
    "cos_pi": Fit(
        of_root(lambda u: (mp.cos(mp.pi * u) - 1 + mp.pi**2 / 2 * u**2) / u**4),
        lambda z: z**2,
        mpf(10) ** -6,
        QUARTER**2,
        (3, 6),
    ),
    # pi cot(pi r) = 1 / r - r p(r r).
    "cot_pi": Fit(
        of_root(lambda r: (1 / r - cot_pi(r)) / r),
        of_root(lambda r: r / cot_pi(r)),
        mpf(10) ** -8,
        QUARTER**2,
        (4, 9),
    ),
    # pi tan(pi u) = u p(u u).
    "tan_pi": Fit(
        of_root(lambda u: tan_pi(u) / u),
        of_root(lambda u: u / tan_pi(u)),
        mpf(10) ** -8,
        QUARTER**2,
        (7, 15),
    ),
    # erfinv(x) = x (CENTRE + CENTRE^3 / 3 z + z z p(z)), z = x x.
    "erfinv_centre": Fit(
        erfinv_centre, centre_weight, mpf(10) ** -6, MOST_CENTRE**2, (8, 0)
    ),
}


@dataclass
class Quotient:
    """Two polynomials whose quotient is near `fit.f`, by their degrees."""

    fit: Fit
    top: int
    bottom: int
    bits: int


QUOTIENTS = {
    "erfinv_centre_double": Quotient(
        Fit(
            erfinv_centre, centre_weight, mpf(10) ** -6, MOST_CENTRE**2, (0, 0)
        ),
        5,
        5,
        53,
    ),
    "erfinv_tail_float": Quotient(
        Fit(
            erfinv_tail,
            lambda v: 1 / erfinv_of_v(v),
            LOWEST_V,
            mpf("4.2"),
            (0, 0),
        ),
        4,
        3,
        24,
    ),
    "erfinv_tail_double": Quotient(
        Fit(
            lambda t: erfinv_tail(t + SHIFT),
            lambda t: 1 / erfinv_of_v(t + SHIFT),
            LOWEST_V - SHIFT,
            mpf("6.13") - SHIFT,
            (0, 0),
        ),
        8,
        8,
        53,
    ),
}


def solve(rows: list[list[mpf]], target: list[mpf]) -> list[mpf]:
    """The least squares' solution."""
    n = len(rows[0])
    matrix, right = mp.matrix(n), mp.matrix(n, 1)
    for i in range(n):
        for j in range(i, n):
            matrix[i, j] = matrix[j, i] = mp.fsum(r[i] * r[j] for r in rows)
        right[i] = mp.fsum(r[i] * t for r, t in zip(rows, target, strict=True))
    return list(mp.lu_solve(matrix, right))


def fitted_quotient(q: Quotient) -> tuple[list[mpf], list[mpf], mpf]:
    """Both polynomials' coefficients, and the largest error before rounding.

    Least squares of top - f bottom over the last round's bottom, weighted anew
    (Lawson) until the errors are level.
    """
    n = 8 * (q.top + q.bottom + 2)
    mid, half = (q.fit.low + q.fit.high) / 2, (q.fit.high - q.fit.low) / 2
    xs = [mid - half * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    f, w = [q.fit.f(x) for x in xs], [q.fit.weight(x) for x in xs]
    level, below = [mpf(1)] * n, [mpf(1)] * n
    best: tuple[list[mpf], list[mpf], mpf] = ([], [], mpf("inf"))
    for turn in range(30):
        rows, target = [], []
        for i, x in enumerate(xs):
            scale = w[i] / below[i] * mp.sqrt(level[i])
            powers = [scale * x**k for k in range(max(q.top, q.bottom) + 1)]
            rows.append(
                powers[: q.top + 1]
                + [-f[i] * p for p in powers[1 : q.bottom + 1]]
            )
            target.append(scale * f[i])
        c = solve(rows, target)
        top, bottom = c[: q.top + 1], [mpf(1), *c[q.top + 1 :]]
        below = [mp.polyval(bottom[::-1], x) for x in xs]
        errors = [
            abs(w[i] * (mp.polyval(top[::-1], x) / below[i] - f[i]))
            for i, x in enumerate(xs)
        ]
        if min(below) > 0 and max(errors) < best[2]:
            best = (top, bottom, max(errors))
        if turn >= 6:
            mean = mp.fsum(errors) / n
            level = [
                a * (e + mean / 20) for a, e in zip(level, errors, strict=True)
            ]
            level = [a * n / mp.fsum(level) for a in level]
    return best


def show(name: str, bits: int, error: mpf, *polynomials: list[mpf]) -> None:
    """Prints coefficients, in as many digits as they have bits."""
    print(f"{name}, {bits} bits: error 2^{float(mp.log(error, 2)):.1f}")
    for c in polynomials:
        digits = 9 if bits == 24 else 17
        print("  ", ", ".join(mp.nstr(rounded(x, bits), digits) for x in c))


def main() -> None:
    """Prints the fits that the command line names, or all."""
    for name in sys.argv[1:] or [*FITS, *QUOTIENTS]:
        if name in QUOTIENTS:
            top, bottom, error = fitted_quotient(QUOTIENTS[name])
            show(name, QUOTIENTS[name].bits, error, top, bottom)
            continue
        for terms, bits in zip(FITS[name].terms, (24, 53), strict=True):
            if terms:
                c, error = fitted(FITS[name], terms, bits)
                show(name, bits, error, c)


if __name__ == "__main__":
    main()
