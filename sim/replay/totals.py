# SPDX-License-Identifier: BSD-2-Clause
"""The judgement of a replay: every frame against the golden model, then sums, errors and checksums."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from inceptionn.wire import BF16_LANES, EXPONENT_BIAS, Verdict

from ..golden import EngineConfig, FlowTable, Result, receive, transmit
from ..nic_codec import codec_of
from ..verilated import Output
from . import referee

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
    half: bool = False
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


def _errors(sent: bytes, restored: bytes, payload: int, exact: int, half: bool) -> tuple[float, int]:
    """Return the largest error of a frame's floats below the exponent ``exact``; ``half``: they are bf16.

    Also returns how many of the others changed.
    """
    before, after = (
        np.frombuffer(frame, "<u2", offset=payload).astype("<u4") << 16
        if half else np.frombuffer(frame, "<u4", offset=payload)
        for frame in (sent[: len(restored)], restored)
    )  # fmt: skip
    small = (before >> 23 & 0xFF) < exact
    difference = np.abs(before[small].view("<f4").astype(float) - after[small].view("<f4"))
    return float(difference.max(initial=0)), int(np.count_nonzero(before[~small] != after[~small]))


def tally(
    sent: Sequence[bytes], wire: Sequence[Output], host: Sequence[Output],
    results: Sequence[tuple[Result, Result]], config: EngineConfig, tick: Callable[[], None] = lambda: None,
) -> Totals:  # fmt: skip
    """Total the sums, errors and checksums of a replay.

    Raises `ReplayError` for a broken bound or checksum.
    """
    totals = Totals(frames=len(sent), bound=2.0 ** (config.parameters.e0 - EXPONENT_BIAS))
    codec, exact = codec_of(config.parameters), config.parameters.exact_exponent
    classes, checksums = np.zeros(len(codec.counters), int), Counter[str]()
    for number, (frame, on_wire, at_host, (out, _)) in enumerate(zip(sent, wire, host, results, strict=True)):
        totals.host_bytes += len(frame)
        totals.wire_bytes += len(on_wire.data)
        compressed = out.verdict is Verdict.COMPRESSED
        try:
            checksums.update(referee.check(frame, on_wire.data, at_host.data, compressed))
        except referee.ChecksumError as error:
            raise ReplayError(f"frame {number}: {error}") from error
        if compressed:
            payload = referee.payload_offset(frame)
            number = on_wire.data[payload + SHIM_NUMBER]
            half = config.bf16_tos is not None and number >= BF16_LANES.shim_offset
            small, large = _errors(frame, at_host.data, payload, exact, half)
            if half:
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
            totals.compressed_frames += 1
            totals.payload_bytes += len(at_host.data) - payload
            totals.block_bytes += len(on_wire.data) - payload
            classes += out.counts
        elif at_host.data != frame:
            raise ReplayError(f"frame {number} ({out.verdict.name}): not bit for bit at the host")
        tick()
    if totals.largest_error > totals.bound and config.parameters.bounded:
        raise ReplayError(f"largest error {totals.largest_error!r} exceeds the bound {totals.bound!r}")
    totals.codec, totals.half = codec.name, config.bf16_tos is not None
    totals.classes = dict(zip(codec.counters, classes.tolist(), strict=True))
    totals.checksums = dict(checksums)
    totals.transmit = _by_name(out.verdict for out, _ in results)
    totals.receive = _by_name(back.verdict for _, back in results)
    return totals


def _by_name(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counts = Counter(verdicts)
    return {verdict.name: counts[verdict] for verdict in Verdict if counts[verdict]}
