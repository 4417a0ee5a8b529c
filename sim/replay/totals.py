# SPDX-License-Identifier: BSD-2-Clause
"""The judgement of a replay: every frame against the golden model, then sums, errors and checksums."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from inceptionn.wire import BF16_LANES, EXPONENT_BIAS, LANE_BYTES, Verdict

from ..golden import EngineConfig, FlowTable, Result, receive, transmit
from ..nic_codec import codec_of
from ..verilated import Output
from . import referee
from .grids import Grids

SHIM_NUMBER = 3
"""Byte of the shim that tells the bound, and with planes the type of the lanes."""


class ReplayError(RuntimeError):
    """The NIC and the golden model, the referee or the counters do not agree; the text says where first."""


@dataclass
class Totals:
    """The findings of a replay, all from the frames that the NIC emitted. Bytes are without FCS."""

    frames: int = 0
    host_bytes: int = 0
    wire_bytes: int = 0
    compressed_frames: int = 0
    payload_bytes: int = 0
    """Payload of the compressed frames as the hosts see it."""
    block_bytes: int = 0
    """The same on the wire: shims and blocks."""
    codec: str = ""
    """"paper" or "planes", as the NIC tells."""
    lanes: int = 0
    """Values of the compressed frames, those of `bf16_lanes` not counted."""
    bf16: bool = False
    """The NIC has bf16 lanes."""
    bf16_frames: int = 0
    """Compressed frames with bf16 lanes."""
    bf16_lanes: int = 0
    """Values of these frames."""
    bf16_block_bytes: int = 0
    """Bytes of these frames' shims and blocks."""
    classes: dict[str, int] = field(default_factory=dict)
    """Lanes by tag (paper) or groups by code (planes), by the name of the NIC's counter."""
    transmit: dict[str, int] = field(default_factory=dict)
    """Frames by verdict of the transmit engine."""
    receive: dict[str, int] = field(default_factory=dict)
    bound: float = 0.0
    largest_error: float = 0.0
    """Over the lanes that the codec may change (below 1, or below 2^(14-k) with planes); others are exact."""
    checksums: dict[str, int] = field(default_factory=dict)
    counters: int = 0
    """Hardware counters that were read and agreed."""
    cycles: int = 0
    seconds: float = 0.0
    flows: int = 0
    """TCP flows with compressed frames whose values were judged on the grid that their SYN gives."""
    assumed_flows: int = 0
    """Those without a SYN in the capture, judged on the grid of their first segment (`learn_phases`)."""
    unknown_flows: int = 0
    """TCP flows that passed raw since the capture has no SYN of them."""

    @property
    def ratio(self) -> float:
        """Bytes of all frames, host over wire."""
        return self.host_bytes / self.wire_bytes

    @property
    def bf16_ratio(self) -> float:
        """Payload of the compressed frames with bf16 lanes, host over wire."""
        payload = self.bf16_lanes * BF16_LANES.bytes
        return payload / self.bf16_block_bytes if payload else 1.0

    @property
    def payload_ratio(self) -> float:
        """Payload of the compressed frames, host over wire."""
        return self.payload_bytes / self.block_bytes if self.block_bytes else 1.0


def _first_difference(number: int, place: str, output: Output, expected: Result) -> str | None:
    """Say what is wrong with one frame, or return None."""
    limit = expected.unspecified_from
    if len(output.data) != len(expected.frame):
        what = f"{len(output.data)} bytes instead of {len(expected.frame)}"
    elif output.bad != expected.bad:
        what = f"marked {'bad' if output.bad else 'good'}"
    elif output.data[:limit] != expected.frame[:limit]:
        pairs = enumerate(zip(output.data, expected.frame, strict=True))
        at = next(i for i, (ours, golden) in pairs if ours != golden)
        what = f"byte {at} is {output.data[at]:#04x} instead of {expected.frame[at]:#04x}"
    else:
        return None
    return f"frame {number} {place} ({expected.verdict.name}): {what}"


def compare(
    sent: Sequence[bytes], wire: Sequence[Output], host: Sequence[Output], config: EngineConfig,
    tick: Callable[[], None] = lambda: None,
) -> list[tuple[Result, Result]]:  # fmt: skip
    """Return the golden model's results for ``sent``, transmit and receive.

    Raises `ReplayError` at a difference.
    """
    flows, results = FlowTable(), []
    for number, (frame, on_wire, at_host) in enumerate(zip(sent, wire, host, strict=True)):
        expected = transmit(frame, config, flows)
        if what := _first_difference(number, "on the wire", on_wire, expected):
            raise ReplayError(what)
        restored = receive(on_wire.data, config, bad=on_wire.bad)
        if what := _first_difference(number, "at the host", at_host, restored):
            raise ReplayError(what)
        results.append((expected, restored))
        tick()
    return results


def _errors(
    sent: bytes, restored: bytes, payload: int, first: int, exact: int, size: int
) -> tuple[float, int]:
    """Return the largest error of a frame's floats below the exponent ``exact``.

    The first begins ``first`` bytes after the beginning of the payload; they have ``size`` bytes, where 2 are
    a bf16. Also returns how many of the others changed, and of the bytes of values that are not whole.
    """
    begin = payload + first
    end = len(restored) - (len(restored) - begin) % size
    before, after = (
        np.frombuffer(frame[begin:end], f"<u{size}").astype("<u4") << 32 - 8 * size
        for frame in (sent, restored)
    )
    small = (before >> 23 & 0xFF) < exact
    difference = np.abs(before[small].view("<f4").astype(float) - after[small].view("<f4"))
    parts = ((sent[at], restored[at]) for at in (*range(payload, begin), *range(end, len(restored))))
    changed = int(np.count_nonzero(before[~small] != after[~small])) + sum(a != b for a, b in parts)
    return float(difference.max(initial=0)), changed


def tally(
    sent: Sequence[bytes], wire: Sequence[Output], host: Sequence[Output],
    results: Sequence[tuple[Result, Result]], config: EngineConfig, tick: Callable[[], None] = lambda: None,
) -> Totals:  # fmt: skip
    """Total the sums, errors and checksums of a replay.

    Raises `ReplayError` for a broken bound or checksum.
    """
    totals = Totals(frames=len(sent), bound=2.0 ** (config.parameters.e0 - EXPONENT_BIAS))
    codec, exact, grids = codec_of(config.parameters), config.parameters.exact_exponent, Grids()
    classes, checksums = np.zeros(len(codec.counters), int), Counter[str]()
    for number, (frame, on_wire, at_host, (out, _)) in enumerate(zip(sent, wire, host, results, strict=True)):
        totals.host_bytes += len(frame)
        totals.wire_bytes += len(on_wire.data)
        compressed = out.verdict is Verdict.COMPRESSED
        try:
            checksums.update(referee.check(frame, on_wire.data, at_host.data, compressed))
        except referee.ChecksumError as error:
            raise ReplayError(f"frame {number}: {error}") from error
        headers = grids.read(frame)
        if headers is not None and out.verdict is Verdict.UNKNOWN_FLOW:
            grids.unknown(headers)
        if compressed:
            payload = referee.payload_offset(frame)
            shim = on_wire.data[payload + SHIM_NUMBER]
            bf16 = config.bf16_tos is not None and shim >= BF16_LANES.shim_offset
            size = BF16_LANES.bytes if bf16 else LANE_BYTES
            first = grids.first_value(headers, size) if headers else 0
            small, large = _errors(frame, at_host.data, payload, first, exact, size)
            if bf16:
                totals.bf16_frames += 1
                totals.bf16_lanes += out.lanes
                totals.bf16_block_bytes += len(on_wire.data) - payload
            else:
                totals.lanes += out.lanes
            totals.largest_error = max(totals.largest_error, small)
            if large:
                raise ReplayError(
                    f"frame {number}: a value that the codec keeps was not restored bit for bit"
                )
            if small > totals.bound and config.parameters.bounded:
                raise ReplayError(f"frame {number}: an error of {small!r} exceeds the bound {totals.bound!r}")
            totals.compressed_frames += 1
            totals.payload_bytes += len(at_host.data) - payload
            totals.block_bytes += len(on_wire.data) - payload
            classes += out.counts
        elif at_host.data != frame:
            raise ReplayError(f"frame {number} ({out.verdict.name}): not bit for bit at the host")
        tick()
    totals.flows, totals.assumed_flows = len(grids.by_syn), len(grids.by_segment)
    totals.unknown_flows = len(grids.without)
    totals.codec, totals.bf16 = codec.name, config.bf16_tos is not None
    totals.classes = dict(zip(codec.counters, classes.tolist(), strict=True))
    totals.checksums = dict(checksums)
    totals.transmit = _by_name(out.verdict for out, _ in results)
    totals.receive = _by_name(back.verdict for _, back in results)
    return totals


def _by_name(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counts = Counter(verdicts)
    return {verdict.name: counts[verdict] for verdict in Verdict if counts[verdict]}
