# SPDX-License-Identifier: BSD-2-Clause
"""Why a mutant that no bench can kill is equivalent for all legal inputs, where no proof was found.

A reason is about one circuit: it lapses when its component changes (the hash is that of the folder in
``build/mutants``).
"""

_COUNTS = "what is not counted was gated to 0 before, and a reset clears this flag in both"

_ORDER = "the sweep visits each slot once, in another order"
_KEY = "the slot and the other 95 bits of the key tell this bit"
_RENUMBERED = "each slot of the flow table has another number, always the same"
_JUDGED = "a bit of the flow's key, which nothing reads behind the judging"
_TWICE = "it adds 2 modulo 4 in each of a sweep's 16 cycles, which is nothing"
_FARTHEST = "lane 1 begins at byte 4 at most; after a shift by 4, nothing reads the byte above its vector"

_UNCOUNTED = "a count of lanes of the receive engine, which no counter takes"
_UNREAD = "a bit of the header that the decision carries and nothing reads"
_MAC = "a bit of a MAC address, which nothing reads"
_CLEARED = "it reaches only what is cleared, which the stand-alone compressor does not show"
_COPY = "`more` counts the groups; nothing reads this copy"
_NEVER_FULL = "the queue is never full: what feeds it stops at `room`"
_AS_FULL = "`room` shows places early only where items have just left, so the queue is never fuller"

REASONS: dict[str, dict[str, str]] = {
    "nic-917c86a376c5": {
        "const0 management.reports__payload$66[77]": _UNCOUNTED,
        "cnot0 $auto$ff.cc:337:slice$5650.D[64]": _UNCOUNTED,
        "cnot1 decompression_engine.config[23]": "a bit of `e0`, which the decompressor does not need",
        "const0 management.s_axil__rresp[0]": "this bit is 0 in either response",
        "cnot1 management.s_axil__bresp[1]": "differs only where bit 0 is 1, which is 0 in either response",
    },
    "tag_decoder-2c69e04bb9a7": {"const1 $63.B[0]": _AS_FULL},
    "compressor-210f0859de07": {
        "cnot0 $159.A[0]": "what is below 16 is not above 24, with the bit or without"
    },
    "standalone_compressor-3bad8acabe33": dict.fromkeys(
        ("inv $164.A[0]", "cnot1 $190.Q[3]", "const0 $117.A[3]", "inv $auto$ff.cc:337:slice$866.Q[17]"),
        _CLEARED,
    ),
    "planes_statistics-7424043d98e6": dict.fromkeys(("const1 $34.Y[0]", "const1 $34.B[0]"), _COUNTS),
    "planes_compressor-47249b4f24f4": {
        "const1 $59.Q[0]": "what is not counted is not added either, since no sum ends without a beat here",
        "cnot0 $226.Y[0]": "both limits are even, so the lowest bit does not matter",
    },
    "planes_standalone_compressor-394db2c61e3b": {
        "const0 $347.D[11]": "it reaches only the gain, which the stand-alone compressor does not show",
        "const0 $auto$ff.cc:337:slice$776.Q[3]": "a block has at most 5 beats of codes, so none waits for 8",
    },
    "code_decoder-2c626c07e41e": {"const1 $auto$ff.cc:337:slice$180.Q[5]": _COPY},
    "planes_standalone_decompressor-812c741eff29": {
        "cnot1 $auto$ff.cc:337:slice$699.Q[5]": _COPY,
        "cnot1 $52.A[10]": "it is inverted only where another bit says the same",
    },
    "header_parser-203ddc3713c8": {
        "inv $auto$ff.cc:337:slice$83.Q[87]": _MAC,
        "cnot1 $auto$ff.cc:337:slice$83.Q[2]": _MAC,
        "const0 $auto$ff.cc:337:slice$103.D[112]": "a bit of TCP's window, which nothing reads",
    },
    "front_end-a3d2dcd44ba7": {
        "const0 $194.B[98]": "a reserved bit of the TCP header, which nothing reads",
        "cnot0 $186.A[15]": "with bit 11 clear, the type is no match either way",
    },
    "receive_decision-751036e1cb3a": {
        "inv $118.D[158]": _UNREAD,
        "cnot1 $104.A[0]": "it is inverted only where another fault says the same",
        "const1 $91.B[0]": "it differs for an odd length alone, which is a fault anyway",
    },
    "frame_queue-567d2e4f0da2": {
        "const0 ram_0.read_data[13]": "a frame in this queue has at most 248 bytes, never bit 13",
        "const1 lengths.o__valid[0]": "a frame's length is there before its first beat, which passes a RAM",
        "const0 $61.A[0]": "it adds a level at which there is no room anyway",
    },
    "compression_unit-74628a8564c8": {
        "cnot1 $100.Y[2]": "a shift of 16 or more leaves nothing, however far it goes",
        "const0 $97.B[7]": "E0 is 127 at most",
    },
    "receive_layout-c3bcc7246244": {
        "cnot1 plans.o__payload[55]": "a bit of the payload's length, which nothing reads behind the plan",
    },
    "forward_queue-b7be4e4ff16f": {
        "cnot1 $56.A[3]": "a level of 16 is past the limit, with bit 3 or without"
    },
    "packet_collect-008a87015590": {"cnot1 $44.Y[5]": _NEVER_FULL},
    "register_console-91fff17d0180": {
        "cnot1 $auto$ff.cc:337:slice$296.Q[2]": "the timer counts 3 to 0, now as 7, 6, 1, 0",
        "const0 $181.A[0]": "an error has the other bit set: AXI4-Lite knows no EXOKAY",
    },
    "registers-13c80bcf5961": {
        "const1 $auto$ff.cc:337:slice$526.Q[18]": "slot 19 has no counter",
    },
    "decompression_engine-ea27d2ff48ab": {
        "inv $357.Y[48]": "no cell reads the lower 192 bits of this rotation",
    },
    "event_counters-9dd13fa69e7f": {
        "cnot0 $73.Y[2]": _ORDER,
        "cnot1 $auto$ff.cc:337:slice$56.Q[3]": _ORDER,
    },
    "raw_ring-40f9ed5c417e": dict.fromkeys(
        (
            "const1 $auto$ff.cc:337:slice$8.D[0]",
            "inv $auto$ff.cc:337:slice$8.D[0]",
            "const0 $9.A[3]",
            "inv $8.Y[2]",
        ),
        "`room` compares the level with 48, so the lower four bits of it do not matter",
    ),
    "plane_buffer-44ad2b43e959": {
        "cnot0 $136.A[3]": "the code is compared with 14, and differs from it anyway where bit 1 is 0",
    },
    "burst_buffer-ffb00353bcc6": {
        "cnot0 $auto$pmuxtree.cc:65:recursive_mux_generator$333.A[38]": _FARTHEST,
    },
    "counters-64c29d9b5f9f": {"const0 $auto$ff.cc:337:slice$147.Q[21]": "slot 22 has no counter"},
    "frame_guard-77a20d30b6ad": {
        "cnot0 register.o__payload[223]": "where `tkeep[1]` is 0, byte 27 is not there",
    },
    "transmit_decision-9bb95168f7ca": {
        "const1 settling.judged__payload[196]": "a bit of the phase, which nothing reads behind the judging",
        "cnot0 $auto$ff.cc:337:slice$351.Q[143]": _JUDGED,
        "const0 $58.Y[0]": "`room` falls a cycle later, and the queue has a place beyond its slack",
        "const1 $auto$ff.cc:337:slice$390.Q[0]": "two more sums than records may wait; their queue has room",
    },
    "packet_dispatch-b41b77e8d7eb": {
        "inv $158.Q[61]": _KEY,
        "inv memory.RD_DATA[3]": _RENUMBERED,
        "inv $69.Y[0]": _AS_FULL,
        "cnot1 $94.B[97]": "a reserved bit of the TCP header, which nothing reads",
    },
    "bf16_compression_engine-7fcecc7c5f0e": {
        "inv ram_2.port__data[19]": _JUDGED,
        "cnot0 $355.D[13]": "the significand's leading bit, which nothing reads behind the shift",
        "const0 $198.A[94]": "a bit of TCP's acknowledgement number, which nothing reads",
        "const0 memory.RD_DATA[26]": "bit 1 of a length that is a multiple of 4 wherever it is used",
    },
    "bf16_decompression_engine-fb118d641238": {
        "inv $auto$ff.cc:337:slice$1879.D[8]": "of the head's start, nothing reads the byte within the beat",
        "const0 $134.Q[222]": _UNREAD,
        "cnot0 $134.D[127]": _UNREAD,
        "const0 $auto$ff.cc:337:slice$2339.D[65]": "a bit of the time to live, which nothing reads",
        "const1 $428.B[14]": "no cell reads the lower 192 bits of this rotation",
    },
    "receive_assembler-0ea80db6d19d": {
        "const1 $127.B[1]": "this bit of the constant is 1",
        "cnot0 memory.WR_EN[10]": "what is written early lies where the next word will, and is not read",
        "cnot1 $auto$ff.cc:337:slice$623.D[65]": "a restored payload has at most 9,216 bytes, never bit 14",
    },
    "port_page-ef34120ac7bc": {
        "cnot1 $auto$ff.cc:337:slice$293.D[2]": "the count comes from 18 to 1 in 18 steps, in another order",
        "cnot1 $auto$ff.cc:337:slice$254.Q[1]": _ORDER,
        "inv $auto$ff.cc:337:slice$258.Q[1]": _TWICE,
        "inv $auto$ff.cc:337:slice$262.Q[1]": _TWICE,
    },
    "planes_decompressor-4b7666f83613": {
        "cnot1 unit.impossible[3]": "lane 7 is impossible in these groups, and one lane is enough",
    },
    "compression_engine-d6c3dac09f37": {
        "inv recorder.port$3747$0[184]": _RENUMBERED,
    },
    "code_table-cecfcc210559": {
        "const0 $auto$ff.cc:337:slice$66.SRST[0]": "a word's first group sets it before it is read",
    },
    "queue-ed52ebdede39": {
        "const0 $61.A[3]": "29 items are past the limit of 22 anyway",
        "const1 $67.A[4]": "at a level of 6 there is room anyway",
        "inv $58.A[0]": "`room` compares the level with an even number",
    },
    "checksum-dccdb87ff5a3": dict.fromkeys(
        ("const1 $34.Y[0]", "const1 $auto$ff.cc:337:slice$38.EN[0]"), _COUNTS
    ),
    "shifter_tree-a54d246857c6": {
        "cnot1 $278.Y[11]": "no cell reads this bit: a register's synchronous reset has replaced it",
    },
    "narrower-fa9aee7a0dda": {
        "const1 $auto$ff.cc:337:slice$36.Q[0]": "a beat has a byte 0, and only parts with a byte leave",
    },
    "frame_input-c930bf9cda7a": {
        "const0 $241.A[0]": "an index of 3 does not occur, and 1 is no 2 either way"
    },
    "dequantisation_unit-108cc0ce90fc": {
        "const0 $51.Y[1]": "E0 is 113 to 126, so the upper half of E0 + 16 is 8",
    },
    "block_statistics-51161df487b2": {
        "cnot1 $35.B[10]": "what is cleared is below 1.0, so bit 30 of a lane is 0",
    },
    "compression_block-c665b02d2764": {
        "cnot1 $89.B[7]": "a shift of 16 or more leaves nothing, however far it goes",
    },
    "flow_table-1d11fa9ed0fd": {
        **dict.fromkeys(("cnot0 $23.A[7]", "cnot0 $23.A[1]"), "where part 3 differs, the keys differ anyway"),
        "cnot0 $23.A[6]": "where part 0 differs, the keys differ anyway",
        **dict.fromkeys(("inv $auto$ff.cc:337:slice$21.Q[8]", "cnot0 $auto$ff.cc:337:slice$21.Q[9]"), _ORDER),
        "cnot0 $27.A[3]": "it is inverted only where bit 4 is 0, and then the sweep goes on anyway",
    },
    "alignment_unit-dd20dca5c427": {
        "const1 $205.A[0]": "`data` must be zero while `valid` is low, so what moves besides is zero",
    },
}
"""``component-hash``: the change, and the reason."""

_FULL = "only from a count of 2^63 on, after 200 years at 10 Gb/s"
SURVIVES: dict[str, dict[str, str]] = {
    "registers-13c80bcf5961": {"cnot1 rx_counters.sum_2[0]": _FULL},
}
"""Of survivors: why no bench sees them."""
