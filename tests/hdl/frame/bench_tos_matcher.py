# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of TosMatcher: every mask, every difference of a single bit, and random bytes."""

import random

import cocotb
from cocotb.triggers import Timer


@cocotb.test()
async def every_mask(dut):
    """Check that the answer is combinational: it follows its inputs without a clock."""
    matched = 0
    for mask in range(256):
        wanted = random.getrandbits(8)
        differences = [0, mask, 0xFF ^ mask, *(1 << bit for bit in range(8))]
        differences += [random.getrandbits(8) for _ in range(8)]
        differences += [random.getrandbits(8) & ~mask for _ in range(4)]
        for difference in differences:
            dut.config_mask.value = mask
            dut.config_tos.value = wanted
            dut.tos.value = wanted ^ difference
            await Timer(1, "ns")
            equal = (wanted ^ difference) & mask == wanted & mask
            matched += equal
            what = f"ToS {wanted ^ difference:#04x}, wanted {wanted:#04x}, mask {mask:#04x}"
            assert bool(dut.match.value) == equal, what
    assert matched > 256 * 5


@cocotb.test()
async def ecn_bits_do_not_matter(dut):
    """Check the reset values: they match 0x28 in any ECN state, and none of the other 252 bytes."""
    dut.config_tos.value, dut.config_mask.value = 0x28, 0xFC
    for tos in range(256):
        dut.tos.value = tos
        await Timer(1, "ns")
        assert bool(dut.match.value) == (tos in (0x28, 0x29, 0x2A, 0x2B)), f"ToS {tos:#04x}"
