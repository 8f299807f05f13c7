"""Prints the polynomials of kernels/region: minimax fits of their functions.

Run: python tools/fit_functions.py [name ...]. Needs mpmath.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from mpmath import mp, mpf

mp.dps = 60
Function = Callable[[mpf], mpf]


@dataclass
class Fit:
    """A polynomial near f(x) from low to high.

    weight: what the error is multiplied by before it is judged: of an
        approximation y = g(x) + h(x) p(x) it is h / y, for relative errors.
    terms: the number of coefficients of a float32 and a float64 polynomial; 0
        for none.
    """

    f: Function
    weight: Function
    low: mpf
    high: mpf
    terms: tuple[int, int]


def rounded(x: mpf, bits: int) -> mpf:
    """The nearest number of so many bits."""
    with mp.workprec(bits):
        return +x


class Grid:
    """Points of an interval with what a fit needs of a function at each."""

    def __init__(self, fit: Fit, terms: int) -> None:
        n = 40 * terms
        mid, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
        points = [
            mid + half * mp.cos(mp.pi * (i + mpf(1) / 2) / n) for i in range(n)
        ]
        # The functions have removable poles at 0.
        self.x = [x if x else half / 10**9 for x in points]
        self.f = [fit.f(x) for x in self.x]
        self.w = [fit.weight(x) for x in self.x]

    def errors(self, c: list[mpf]) -> list[mpf]:
        """The weighted error of a polynomial at each point."""
        return [
            w * (mp.polyval(c[::-1], x) - f)
            for x, f, w in zip(self.x, self.f, self.w, strict=True)
        ]


def extremes(errors: list[mpf], count: int) -> list[int]:
    """Indices of `count` errors of alternating signs, as large as may be."""
    peaks: list[int] = []
    for i, e in enumerate(errors):
        if peaks and (e > 0) == (errors[peaks[-1]] > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        ends = (0, len(peaks) - 1)
        peaks.pop(min(ends, key=lambda i: abs(errors[peaks[i]])))
    return peaks


def remez(grid: Grid, terms: int) -> list[mpf]:
    """The coefficients whose largest error is the least."""
    n = len(grid.x)
    peaks = [round((n - 1) * i / terms) for i in range(terms + 1)]
    c: list[mpf] = []
    for _ in range(20):
        matrix, target = mp.matrix(terms + 1), mp.matrix(terms + 1, 1)
        for row, i in enumerate(peaks):
            for power in range(terms):
                matrix[row, power] = grid.w[i] * grid.x[i] ** power
            matrix[row, terms] = (-1) ** row
            target[row] = grid.w[i] * grid.f[i]
        c = list(mp.lu_solve(matrix, target))[:terms]
        found = extremes(grid.errors(c), terms + 1)
        if found == peaks or len(found) <= terms:
            break
        peaks = found
    return c


def fitted(fit: Fit, terms: int, bits: int) -> tuple[list[mpf], mpf]:
    """Coefficients rounded to `bits` bits, and the largest error with them."""
    grid = Grid(fit, terms)
    c = [rounded(x, bits) for x in remez(grid, terms)]
    return c, max(abs(e) for e in grid.errors(c))


def erfc_fit(middle: int, most: str, terms: tuple[int, int]) -> Fit:
    """erfc(x) = exp(-x x) p(t) / (1 + 9/8 x) up to `most`.

    t is (x - middle) / (x + middle).
    """

    def f(t: mpf) -> mpf:
        x = middle * (1 + t) / (1 - t)
        return mp.exp(x * x) * mp.erfc(x) * (1 + x * 9 / 8)

    high = (mpf(most) - middle) / (mpf(most) + middle)
    return Fit(f, lambda t: 1 / f(t), mpf(-1), high, terms)


HALF_LN2 = mp.log(2) / 2 * mpf("1.001")
ROOT_LOW, ROOT_HIGH = mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(2) - 1
MOST_S2 = (ROOT_HIGH / (2 + ROOT_HIGH)) ** 2

FITS = {
    # exp(r) = 1 + r + r r p(r).
    "exp": Fit(
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.exp(r),
        -HALF_LN2,
        HALF_LN2,
        (5, 10),
    ),
    # The same, for relative errors of exp(r) - 1.
    "expm1": Fit(
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.expm1(r),
        -HALF_LN2,
        HALF_LN2,
        (6, 11),
    ),
    # 2^r = 1 + r p(r).
    "exp2": Fit(
        lambda r: (2**r - 1) / r,
        lambda r: r / 2**r,
        mpf("-0.501"),
        mpf("0.501"),
        (6, 11),
    ),
    # log(1 + f) = f - f f / 2 + f f f p(f).
    "log": Fit(
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        lambda f: f**3 / mp.log1p(f),
        ROOT_LOW,
        ROOT_HIGH,
        (9, 0),
    ),
    # log2(1 + f) = f p(f).
    "log2": Fit(
        lambda f: mp.log1p(f) / f / mp.log(2),
        lambda f: f / mp.log1p(f),
        ROOT_LOW,
        ROOT_HIGH,
        (10, 0),
    ),
    "log10": Fit(
        lambda f: mp.log1p(f) / f / mp.log(10),
        lambda f: f / mp.log1p(f),
        ROOT_LOW,
        ROOT_HIGH,
        (10, 0),
    ),
    # 2 atanh(s) = 2 s + s z p(z), z = s s.
    "log_by_s": Fit(
        lambda z: 2 * (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        lambda z: z * mp.sqrt(z) / mp.atanh(mp.sqrt(z)) / 2,
        mpf(0),
        MOST_S2,
        (0, 7),
    ),
    # atanh(s) / s = 1 + z / 3 + z z p(z).
    "pow": Fit(
        lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2,
        lambda z: z**2,
        mpf("1e-6"),
        MOST_S2,
        (4, 9),
    ),
    # erf(x) = x p(x x).
    "erf": Fit(
        lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s),
        lambda s: mp.sqrt(s) / mp.erf(mp.sqrt(s)),
        mpf(0),
        mpf(1),
        (0, 12),
    ),
    # erf(1 + d) = 1 - 2^p(d).
    "erf_tail": Fit(
        lambda d: mp.log(mp.erfc(1 + d), 2),
        lambda d: mp.log(2) * mp.erfc(1 + d) / mp.erf(1 + d),
        mpf(0),
        mpf(5),
        (0, 16),
    ),
    "erfc_float": erfc_fit(3, "10.1", (10, 0)),
    "erfc_double": erfc_fit(4, "27.3", (0, 22)),
}


def main() -> None:
    """Prints what is asked for."""
    for name in sys.argv[1:] or FITS:
        for terms, bits, digits in zip(
            FITS[name].terms, (24, 53), (9, 17), strict=True
        ):
            if terms:
                c, error = fitted(FITS[name], terms, bits)
                size = mp.nstr(mp.log(error, 2), 3)
                print(f"{name}, {bits} bits: error 2^{size}")
                print("  ", ", ".join(mp.nstr(x, digits) for x in c))


if __name__ == "__main__":
    main()
