# SPDX-License-Identifier: BSD-2-Clause
"""The linear compressor (GradiVeQ, eq. 3 to 7): principal components of a slice over iterations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...training import Floats


@dataclass(frozen=True)
class Compressor:
    """U_d and the whitening vectors of a run of slices that share it.

    ``components``: float32[K, d], orthonormal columns, those of the d largest eigenvalues of the covariance.
    ``whitening``: float32[M, K], the mean of each slice's samples (mu_m).

    The paper drops the index m of U_d when it is reused, and does not say what happens to mu_m. Here every
    slice keeps its own mean, which costs nothing, since all slices are aggregated while sampling. Compressed
    slices of all workers add up to the compressed mean (eq. 4) if each subtracts its share of mu:
    ``U' (g_n - mu) / N``.
    """

    components: Floats
    whitening: Floats
    _rows: Floats = field(init=False, repr=False, compare=False)
    """U_d transposed, as a C-ordered copy: multiplying few rows by it is twice as fast."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows", np.ascontiguousarray(self.components.T))

    @property
    def dimension(self) -> int:
        """d, values of a compressed slice."""
        return int(self.components.shape[1])

    def compress(self, slices: Floats, first: int, share: float = 1.0) -> Floats:
        """Eq. 3 for consecutive slices, float32[m, K], from number ``first`` on: float32[m, d].

        O(m * K * d). ``share``: what the result is multiplied by, 1/N for one of N workers.
        """
        centred = slices - self.whitening[first : first + len(slices)]
        compressed = np.empty((len(slices), self.dimension), np.float32)
        np.matmul(centred, self.components, out=compressed)
        compressed *= np.float32(share)
        return compressed

    def decompress(self, compressed: Floats, first: int) -> Floats:
        """Eq. 5: float32[m, K] of the sum of all workers' float32[m, d]."""
        restored = np.empty((len(compressed), self._rows.shape[1]), np.float32)
        np.matmul(compressed, self._rows, out=restored)
        restored += self.whitening[first : first + len(compressed)]
        return restored

    def losses(self, slices: Floats, compressed: Floats, first: int) -> tuple[float, float]:
        """Squares of what compression takes from slices, and of the slices (numerator, denominator of eq. 7).

        ``compressed``: `compress` of them with share 1. No decompression is needed: the columns are
        orthonormal, so what is lost of the centred slice is its square less that of the compressed one.
        """
        centred = (slices - self.whitening[first : first + len(slices)]).reshape(-1)
        lost = float(np.dot(centred, centred)) - float(np.dot(compressed.reshape(-1), compressed.reshape(-1)))
        flat = slices.reshape(-1)
        return max(0.0, lost), float(np.dot(flat, flat))


def check_threshold(threshold: float) -> None:
    """``ValueError`` for a loss threshold that is not within 0..1."""
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold must be within 0 and 1, 1 excluded, not {threshold!r}")


def dimension_of(eigenvalues: NDArray[np.float64], threshold: float) -> int:
    """Eq. 6: the least d >= 1 so that the eigenvalues after the first d are at most ``threshold`` of all.

    ``eigenvalues``: float64[n], descending. That bounds the loss of eq. 7 over the samples: what is lost, on
    average, is the tail; the slices' energy is the variance and the square of the mean.
    """
    check_threshold(threshold)
    total = float(eigenvalues.sum())
    if not total > 0:
        return 1
    tails = total - np.cumsum(eigenvalues)
    # A tail of rounding errors alone is none.
    return int(np.argmax(tails <= threshold * total + 1e-12 * total)) + 1


def principal_components(samples: Floats, threshold: float) -> Floats:
    """float32[K, d] of the samples of one slice, float32[L, K]; d by `dimension_of`.

    The singular vectors of the centred samples are the eigenvectors of their covariance: a decomposition of
    L x K, O(L^2 K), in place of one of K x K. With L samples d is at most L - 1 (and K). The sign of each
    column is such that its largest value is positive.
    """
    centred = samples.astype(np.float64)
    centred -= centred.mean(axis=0)
    _, singular, rows = np.linalg.svd(centred, full_matrices=False)
    chosen = rows[: dimension_of(singular**2, threshold)]
    largest = chosen[np.arange(len(chosen)), np.abs(chosen).argmax(axis=1)]
    signs = np.where(largest < 0, -1.0, 1.0)
    return np.ascontiguousarray((chosen * signs[:, np.newaxis]).T, np.float32)
