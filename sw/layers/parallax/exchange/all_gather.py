# SPDX-License-Identifier: BSD-2-Clause
"""All-gather of sparse gradients: every rank receives those of all ranks (Fig. 2d).

This is Horovod's method for TensorFlow's ``IndexedSlices``, and the paper's baseline.
"""

import numpy as np

from ....collectives import Raw, WireForm, arriving, sums_exactly
from ....transport import Transport
from ...parameters import RowSparse
from .row_sets import Rows, decode_rows, encode_rows, most_row_bytes


def all_gather_sum(transport: Transport, gradient: RowSparse, form: WireForm) -> tuple[RowSparse, int]:
    """Return the sum of all ranks' gradients, the same bits everywhere, and the bytes that this rank sent.

    Collective. Each rank sends row numbers and values to every other, ``2 alpha w (N-1)`` bytes in and out
    (Table 3, Sparse, AR). ``form`` carries the values. If it is lossy, a rank adds its own gradient with the
    values that the others get. Gradients are summed in the order of the ranks; where sums are exact, in
    float64, so that any order gives the same bits.
    """
    size, me = transport.size, transport.rank
    others = [(me + step) % size for step in range(1, size)]
    count = gradient.shape[0]
    numbers = Raw(transport)
    encoded = encode_rows(gradient.rows, count)
    values = np.array(gradient.values, np.float32, order="C")
    form.settle(values.reshape(-1))
    buffers = {peer: np.empty(most_row_bytes(count), np.uint8) for peer in others}
    requests = {peer: transport.irecv_into(peer, buffers[peer]) for peer in others}
    sent = encoded.nbytes * len(others)
    for peer in others:
        numbers.post(peer, encoded)
    if others and values.size:
        sent += form.send(others, values.reshape(-1)) * len(others)
    rows: dict[int, Rows] = {}
    for peer in others:
        length = requests[peer].wait()
        with arriving(me, peer):
            rows[peer] = decode_rows(buffers[peer][:length], count)
    theirs = {peer: np.empty((rows[peer].size, *gradient.shape[1:]), np.float32) for peer in others}
    incoming = {peer: form.receive(peer, theirs[peer].reshape(-1)) for peer in others if theirs[peer].size}
    rows[me], theirs[me] = gradient.rows, values
    union = np.unique(np.concatenate([rows[rank] for rank in range(size)]))
    kind = np.float64 if sums_exactly(form) else np.float32
    total = np.zeros((union.size, *gradient.shape[1:]), kind)
    for rank in range(size):
        if rank in incoming:
            incoming[rank].finish()
            incoming[rank].drop()
        total[np.searchsorted(union, rows[rank])] += theirs[rank]
    form.drain()
    numbers.drain()
    return RowSparse(union, total.astype(np.float32, copy=False), gradient.shape), sent
