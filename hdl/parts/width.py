# SPDX-License-Identifier: BSD-2-Clause
"""The width of an engine: how many fp32 lanes a beat has, and what follows from it."""

from dataclasses import dataclass

from inceptionn.wire import GROUP_LANES, LANE_BYTES

LEAST_HEADERS = 42
"""Bytes before the shortest headers' payload: Ethernet 14, IPv4 20, UDP 8."""
HEADER_FIELDS = 58
"""Bytes that hold every header field, with a VLAN tag: Ethernet 14, 802.1Q 4, IPv4 20, TCP 20."""


@dataclass(frozen=True)
class Width:
    """Beats of ``lanes`` fp32 lanes. Components branch on its properties, not on the number of lanes.

    With ``bf16``, a beat may instead have two bf16 lanes in place of each fp32 lane (planes codec). A
    component that works on lanes then takes beats of both types, in the same number of cycles. An instance is
    named ``width``; an :class:`EngineShape`, which adds the codec, is named ``shape``.

    Raises ``ValueError`` unless ``lanes`` is 1, 8 or 16.
    """

    lanes: int = GROUP_LANES
    bf16: bool = False

    def __post_init__(self) -> None:
        if type(self.lanes) is not int or self.lanes not in (1, GROUP_LANES, 2 * GROUP_LANES):
            raise ValueError(f"lanes must be 1, {GROUP_LANES} or {2 * GROUP_LANES}, not {self.lanes!r}")

    @property
    def serial(self) -> bool:
        """One lane a beat: engines that take a frame word by word."""
        return self.lanes == 1

    @property
    def bytes(self) -> int:
        """Bytes, 4 for each lane."""
        return self.lanes * LANE_BYTES

    @property
    def bits(self) -> int:
        """Width of ``tdata``."""
        return 8 * self.bytes

    @property
    def words(self) -> int:
        """16-bit words: tag words, and the unit of checksums and header fields."""
        return self.bytes // 2

    @property
    def place_bits(self) -> int:
        """Bits of a byte's place in the beat."""
        return self.bytes.bit_length() - 1

    @property
    def groups(self) -> int:
        """Groups of 8 lanes."""
        return self.lanes // GROUP_LANES

    @property
    def parsed_beat(self) -> int:
        """Index of the beat that completes the fields of all headers."""
        return (HEADER_FIELDS - 1) // self.bytes

    @property
    def headers_in_one_beat(self) -> bool:
        """True if a frame's first beat has all header fields. A frame may then be one beat long."""
        return self.parsed_beat == 0

    @property
    def payload_overlaps(self) -> bool:
        """True if a payload may begin in its frame's first beat.

        The rest of the previous payload may leave meanwhile, so blocks follow each other without an idle
        cycle, and a restored frame may be one beat long.
        """
        return self.bytes > LEAST_HEADERS


BURST = Width()
"""One burst, 8 lanes: the usual width."""
