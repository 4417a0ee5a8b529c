# SPDX-License-Identifier: BSD-2-Clause
"""The two engines as functions from frame to frame (wire-format.md sections 3 to 8).

A frame is the bytes from the destination MAC address to the last data byte, without the frame check
sequence. The order of the tests is the verdict order of section 5, step by step.
"""

from dataclasses import dataclass, replace

import numpy as np

from inceptionn import wire
from inceptionn.wire import CodecParameters, Verdict

from . import checksum
from .flows import FlowTable
from .formats import Counts, Format, format_of
from .parse import IPV4_BYTES, SHIM, Headers, parse, read


@dataclass(frozen=True)
class EngineConfig:
    """The registers of an engine, with their values out of reset.

    ``tos``/``tos_mask``: a frame is tagged if its ToS byte equals ``tos`` in the bits of the mask.
    ``parameters``: their type is the engine's codec, that is the version of the shim it sends and restores.
    Their values matter to the transmit engine only and may be invalid (it then passes everything).
    ``min_payload`` (transmit) and ``max_payload`` (both; at most 9216) are in bytes of payload as
    the hosts see it. ``bf16_tos``: the ToS byte of frames with bf16 lanes, for codecs with
    ``bf16_lanes``; None for an engine without them. In the bits of the mask, 0 or ``tos`` means that there
    are none. ``learn_phases`` (transmit): segments of a flow that is not in the table are taken to start on
    the flow's 4-byte grid.
    """

    enable: bool = True
    tos: int = wire.DEFAULT_TOS
    tos_mask: int = wire.DEFAULT_TOS_MASK
    parameters: CodecParameters = wire.parameters(wire.DEFAULT_K, wire.DEFAULT_MODE)
    min_payload: int = wire.DEFAULT_MIN_PAYLOAD
    max_payload: int = wire.DEFAULT_MAX_PAYLOAD
    bf16_tos: int | None = None
    learn_phases: bool = False

    def __post_init__(self) -> None:
        for name, most in (
            ("tos", 0xFF),
            ("tos_mask", 0xFF),
            ("bf16_tos", 0xFF),
            ("min_payload", 0xFFFF),
            ("max_payload", wire.DEFAULT_MAX_PAYLOAD),
        ):
            value = getattr(self, name)
            if not (name == "bf16_tos" and value is None) and not 0 <= value <= most:
                raise ValueError(f"{name} must be 0..{most}, not {value!r}")
        if self.bf16_tos is not None and not self.format.spec.bf16_lanes:
            codecs = " or ".join(wire.BF16_CODECS)
            raise ValueError(
                f"bf16_tos needs the codec {codecs}, not {self.parameters.codec}: others have fp32 lanes"
            )

    @property
    def format(self) -> Format:
        """Shim and block of this engine's codec, with fp32 lanes."""
        return format_of(self.parameters)

    @property
    def forms(self) -> dict[int, Format]:
        """Shim and block of frames by their ToS byte, of which the bits of the mask count."""
        forms = {self.tos: self.format}
        bf16 = self.bf16_tos
        if bf16 is not None and bf16 & self.tos_mask and (self.tos ^ bf16) & self.tos_mask:
            forms[bf16] = format_of(self.parameters, wire.BF16_LANES)
        return forms

    @property
    def tags(self) -> tuple[int, ...]:
        """The ToS bytes of tagged frames."""
        return tuple(self.forms)

    def marks(self, tos: int) -> bool:
        """Return whether frames with this ToS byte are tagged."""
        return any(not (tag ^ tos) & self.tos_mask for tag in self.tags)

    def form_of(self, tos: int) -> Format:
        """Return the format into which the transmit engine compresses tagged frames with this ToS byte."""
        return next(form for tag, form in self.forms.items() if not (tag ^ tos) & self.tos_mask)


@dataclass(frozen=True)
class Result:
    """An engine's output for one frame.

    ``counts``: of a compressed or restored frame, the lanes per tag, absent lanes of the last group not
    counted (paper), or the groups per code (planes); empty for any other verdict. ``lanes``: all of its
    lanes, which are ``bf16`` or fp32. ``unspecified_from``: bytes of ``frame`` from this index on (payload
    after the first fault of a malformed block, by whole groups) are zero here and unspecified in another
    implementation; their number is specified. ``None`` where every byte is.
    """

    frame: bytes
    verdict: Verdict
    counts: Counts = ()
    lanes: int = 0
    bad: bool = False
    unspecified_from: int | None = None
    bf16: bool = False


def _with_fields(frame: bytes, headers: Headers, total_length: int, l4_checksum: int) -> bytearray:
    """Return the headers of ``frame`` with another IP total length and TCP or UDP checksum."""
    head = bytearray(frame[: headers.payload])
    l3, l4 = headers.l3, headers.l4
    head[l3 + 2 : l3 + 4] = total_length.to_bytes(2, "big")
    ip_checksum = checksum.update(headers.ip_checksum, headers.total_length, total_length)
    head[l3 + 10 : l3 + 12] = ip_checksum.to_bytes(2, "big")
    if headers.protocol == wire.PROTOCOL_UDP:
        head[l4 + 4 : l4 + 6] = (total_length - IPV4_BYTES).to_bytes(2, "big")
    head[headers.checksum_at : headers.checksum_at + 2] = l4_checksum.to_bytes(2, "big")
    return head


# Transmit


def _off_grid(headers: Headers, config: EngineConfig, flows: FlowTable) -> Verdict | None:
    """Do step 20: return the verdict against a segment that is not known to start on its flow's grid."""
    phase = flows.phase(headers.flow)
    if phase is not None:
        return None if phase == headers.sequence & 3 else Verdict.PHASE
    if not config.learn_phases:
        return Verdict.UNKNOWN_FLOW
    if not headers.ends:
        flows.store(headers.flow, headers.sequence)
    return None


def _keep_flows(frame: bytes, config: EngineConfig, flows: FlowTable) -> None:
    """Do to the table what SYN, FIN and RST ask for (section 7), whatever the frame's verdict."""
    if len(frame) > wire.MAX_TRANSMIT_FRAME:
        return
    _, headers = parse(frame, (0,), 0, whole=True)  # a mask of 0: without step 9
    if headers is None or headers.protocol != wire.PROTOCOL_TCP:
        return
    if headers.ends or (headers.syn and not config.marks(headers.tos)):
        flows.free(headers.flow)
    elif headers.syn:
        flows.store(headers.flow, headers.sequence + 1)  # SYN takes one sequence number


def _compressed(frame: bytes, headers: Headers, config: EngineConfig) -> Result | Verdict:
    """Do steps 21 and 22: return the frame with shim and block, or the verdict against it."""
    payload = frame[headers.payload : headers.end]
    form = config.form_of(headers.tos)
    block, lanes, counts = form.pack(np.frombuffer(payload, form.word))
    if wire.SHIM_BYTES + len(block) >= len(payload):
        return Verdict.EXPANDED

    seen = lanes.astype(form.word).tobytes()  # what the receiving host will see
    new_checksum = checksum.update(headers.checksum, checksum.word_sum(payload), checksum.word_sum(seen))
    if headers.protocol == wire.PROTOCOL_UDP and new_checksum == 0:
        new_checksum = 0xFFFF  # RFC 768: zero would mean "no checksum"

    shim = form.shim(form.base, len(payload))
    total_length = headers.total_length - len(payload) + len(shim) + len(block)
    sent = bytes(_with_fields(frame, headers, total_length, new_checksum)) + shim + block

    pseudo_header = checksum.pseudo_header_sum(
        headers.flow.source, headers.flow.destination, headers.protocol, total_length - IPV4_BYTES
    )
    if checksum.fold(pseudo_header + checksum.word_sum(sent[headers.l4 :])) == 0xFFFF:
        return Verdict.AMBIGUOUS
    return Result(sent, Verdict.COMPRESSED, counts, len(lanes), bf16=form.kind is wire.BF16_LANES)


def transmit(frame: bytes, config: EngineConfig, flows: FlowTable, bad: bool = False) -> Result:
    """Act as the compression engine, host to wire. ``flows`` is its state from frame to frame.

    ``bad``: the frame arrived marked bad. Any verdict but ``COMPRESSED`` leaves the frame as it is.
    """
    frame = bytes(frame)
    if bad:  # step 1
        return Result(frame, Verdict.BAD, bad=True)
    result = _judged(frame, config, flows)
    _keep_flows(frame, config, flows)
    return result


def _judged(frame: bytes, config: EngineConfig, flows: FlowTable) -> Result:
    """Do steps 2 to 22."""
    if not config.enable or not config.parameters.valid:
        return Result(frame, Verdict.DISABLED)
    if len(frame) > wire.MAX_TRANSMIT_FRAME:
        return Result(frame, Verdict.LONG)

    verdict, headers = parse(frame, config.tags, config.tos_mask, whole=True)  # steps 4 to 16
    if headers is None:
        assert verdict is not None
        return Result(frame, verdict)
    if verdict is not None:
        return Result(frame, verdict)

    if headers.payload_bytes < max(config.min_payload, 1):  # step 17
        return Result(frame, Verdict.SHORT)
    if headers.payload_bytes > config.max_payload:
        return Result(frame, Verdict.LONG)
    if headers.payload_bytes % wire.LANE_BYTES:
        return Result(frame, Verdict.ALIGNMENT)
    if headers.protocol == wire.PROTOCOL_TCP:
        verdict = _off_grid(headers, config, flows)
        if verdict is not None:
            return Result(frame, verdict)
    outcome = _compressed(frame, headers, config)
    return outcome if isinstance(outcome, Result) else Result(frame, outcome)


# Receive


def _announced(frame: bytes, headers: Headers, config: EngineConfig) -> Verdict | tuple[int, Format]:
    """Do steps 17 to 20: return the payload length and lanes that a valid shim announces, or a verdict."""
    at = headers.payload
    if headers.payload_bytes < wire.SHIM_BYTES:
        return Verdict.NO_SHIM
    if len(frame) < at + wire.SHIM_BYTES:
        return Verdict.LENGTHS
    shim = {name: read(frame, at, field) for name, field in SHIM.items()}
    if shim["magic"] != wire.SHIM_MAGIC:
        return Verdict.NO_SHIM
    length = shim["length"]
    form = next((form for form in config.forms.values() if form.accepts(shim["base"])), None)
    if (
        form is None
        or shim["version"] != form.spec.version
        or shim["reserved"] != 0
        or length % wire.LANE_BYTES
        or length <= headers.payload_bytes
        or length > config.max_payload
    ):
        return Verdict.BAD_SHIM
    return length, form


def _restored(frame: bytes, headers: Headers, length: int, form: Format) -> Result:
    """Do step 21: restore the frame's payload to the ``length`` bytes that the shim announces."""
    at = headers.payload
    block = frame[at + wire.SHIM_BYTES : headers.end]
    size = headers.payload_bytes - wire.SHIM_BYTES
    lanes, counts, fault = form.unpack(block, length // form.kind.bytes, frame[at + 3], size)
    total_length = headers.total_length - headers.payload_bytes + length
    head = _with_fields(frame, headers, total_length, headers.checksum)
    whole = bytes(head) + lanes.astype(form.word).tobytes()
    if fault is None:
        return Result(whole, Verdict.RESTORED, counts, len(lanes), bf16=form.kind is wire.BF16_LANES)
    fault_at = at + fault.group * wire.BURST_BYTES
    return Result(
        whole,
        Verdict.MALFORMED,
        bad=True,
        unspecified_from=fault_at if fault_at < len(whole) else None,
    )


def receive(frame: bytes, config: EngineConfig, bad: bool = False) -> Result:
    """Act as the decompression engine, wire to host. It keeps no state.

    ``bad``: the frame arrived marked bad. With a valid shim it is restored nevertheless, since the engine
    cuts through and the mark is on the last beat; its verdict is ``BAD`` and it leaves marked bad. Otherwise
    any verdict but ``RESTORED`` and ``MALFORMED`` leaves the frame unchanged.
    """
    frame = bytes(frame)
    if not config.enable:
        return Result(frame, Verdict.BAD if bad else Verdict.DISABLED, bad=bad)
    verdict, headers = parse(frame, config.tags, config.tos_mask, whole=False)  # steps 4 to 16
    if verdict is None:
        assert headers is not None
        announced = _announced(frame, headers, config)
        if isinstance(announced, Verdict):
            verdict = announced
        else:
            result = _restored(frame, headers, *announced)
            return replace(result, verdict=Verdict.BAD, bad=True, counts=(), lanes=0) if bad else result
    return Result(frame, Verdict.BAD if bad else verdict, bad=bad)
