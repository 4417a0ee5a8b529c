# SPDX-License-Identifier: BSD-2-Clause
"""The linear compressor: principal components of a slice over iterations (GradiVeQ, eq. 3 to 7)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..parameters import Floats


@dataclass(frozen=True)
class Compressor:
    """A linear compressor: U_d, and the whitening vectors of the run of slices that share it.

    ``components`` is float32[K, d]; its orthonormal columns belong to the d largest eigenvalues of the
    covariance. ``whitening`` is float32[M, K], the mean of each slice's samples (mu_m).

    The paper drops the index m of U_d when it is reused, and does not say what happens to mu_m. Here every
    slice keeps its own mean. This costs nothing, since all slices are aggregated while sampling. The sum of
    all workers' compressed slices is the compressed mean (eq. 4) if each worker subtracts its share of mu:
    ``U' (g_n - mu) / N``.
    """

    components: Floats
    whitening: Floats
    _rows: Floats = field(init=False, repr=False, compare=False)
    """U_d transposed, as a C-ordered copy, since multiplying few rows by it is twice as fast."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows", np.ascontiguousarray(self.components.T))

    @property
    def dimension(self) -> int:
        """d, the number of values of a compressed slice."""
        return int(self.components.shape[1])

    def compress(self, slices: Floats, first: int, share: float = 1.0) -> Floats:
        """Compress consecutive slices by eq. 3, float32[m, K], beginning with number ``first``.

        Returns float32[m, d]. O(m * K * d). The result is multiplied by ``share``, which is 1/N for one of N
        workers.
        """
        centred = slices - self.whitening[first : first + len(slices)]
        compressed = np.empty((len(slices), self.dimension), np.float32)
        np.matmul(centred, self.components, out=compressed)
        compressed *= np.float32(share)
        return compressed

    def decompress(self, compressed: Floats, first: int) -> Floats:
        """Decompress the sum of all workers' slices by eq. 5, float32[m, d], to float32[m, K]."""
        restored = np.empty((len(compressed), self._rows.shape[1]), np.float32)
        np.matmul(compressed, self._rows, out=restored)
        restored += self.whitening[first : first + len(compressed)]
        return restored

    def losses(self, slices: Floats, compressed: Floats, first: int) -> tuple[float, float]:
        """Return eq.

        7's numerator and denominator: the energy that compression removes, and the slices' energy.
        ``compressed`` is the result of `compress` with share 1. No decompression is needed: since the columns
        are orthonormal, the lost energy is that of the centred slice minus that of the compressed one.
        """
        centred = (slices - self.whitening[first : first + len(slices)]).reshape(-1)
        lost = float(np.dot(centred, centred)) - float(np.dot(compressed.reshape(-1), compressed.reshape(-1)))
        flat = slices.reshape(-1)
        return max(0.0, lost), float(np.dot(flat, flat))


def check_threshold(threshold: float) -> None:
    """Raise ``ValueError`` unless the loss threshold is at least 0 and below 1."""
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold must be within 0 and 1, 1 excluded, not {threshold!r}")


def dimension_of(eigenvalues: NDArray[np.float64], threshold: float) -> int:
    """Choose d by eq. 6: the smallest d >= 1 whose tail of eigenvalues is at most ``threshold`` of all.

    ``eigenvalues`` is float64[n], descending. This d bounds the loss of eq. 7 over the samples: on average,
    the tail is lost, and the slices' energy is the variance plus the square of the mean.
    """
    check_threshold(threshold)
    total = float(eigenvalues.sum())
    if not total > 0:
        return 1
    tails = total - np.cumsum(eigenvalues)
    # Rounding errors alone do not count as a tail.
    return int(np.argmax(tails <= threshold * total + 1e-12 * total)) + 1


def principal_components(samples: Floats, threshold: float) -> Floats:
    """Return the components, float32[K, d], of one slice's samples, float32[L, K]; `dimension_of` chooses d.

    The singular vectors of the centred samples are the eigenvectors of their covariance. So a decomposition
    of L x K values, O(L^2 K), replaces one of K x K. With L samples d is at most L - 1 (and K). Each column's
    sign makes its value of largest magnitude positive.
    """
    centred = samples.astype(np.float64)
    centred -= centred.mean(axis=0)
    _, singular, rows = np.linalg.svd(centred, full_matrices=False)
    chosen = rows[: dimension_of(singular**2, threshold)]
    largest = chosen[np.arange(len(chosen)), np.abs(chosen).argmax(axis=1)]
    signs = np.where(largest < 0, -1.0, 1.0)
    return np.ascontiguousarray((chosen * signs[:, np.newaxis]).T, np.float32)
