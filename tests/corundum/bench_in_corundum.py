# SPDX-License-Identifier: BSD-2-Clause
"""cocotb 1 bench of the block inside Corundum, through its driver: registers, tagged traffic, line rate.

It runs in Corundum's bench (`launch.py`), on Corundum's own model of PCIe, MAC and driver. What is to be
sent and what must come was worked out before, by the golden model (`run.py`). What was found goes into
a JSON file, stage by stage; a stage that fails is recorded, and the next one runs.
"""

import json
import os
from pathlib import Path

import cocotb
import mqnic
from cocotb.triggers import Timer, with_timeout
from test_mqnic_core_pcie_us import TB

JOB = json.loads(Path(os.environ["INCEPTIONN_CORUNDUM_JOB"]).read_text())
PLAN = json.loads(Path(JOB["plan"]).read_text())
SMALLEST = 60
"""Bytes to which a MAC pads a frame, without FCS."""
PATIENCE_US = 20
"""Simulated microseconds without a frame after which it counts as lost."""


class Lost(AssertionError):
    """A frame did not come."""


async def soon(awaitable, what):
    try:
        return await with_timeout(awaitable, PATIENCE_US, "us")
    except cocotb.result.SimTimeoutError:
        raise Lost(f"{what} did not come within {PATIENCE_US} us") from None


def compare(expected, data, what):
    """Check that ``data`` is the frame, padded as by a MAC; bytes from ``sure`` on are not specified."""
    frame, sure = bytes.fromhex(expected["frame"]), expected["sure"]
    data = bytes(data)
    assert len(data) in (len(frame), max(len(frame), SMALLEST)), (
        f"{what}: {len(data)}, not {len(frame)} bytes"
    )
    assert data[:sure] == frame[:sure], f"{what}: other bytes than the golden model's"


async def started(dut):
    """Start the bench with its driver loaded and the interface open.

    There is one queue each way, to save time.
    """
    mqnic.MQNIC_MAX_TXQ = mqnic.MQNIC_MAX_RXQ = 1
    mqnic.MQNIC_MAX_CQ = 2
    tb = TB(dut, msix_count=2 ** len(dut.core_pcie_inst.irq_index))
    await tb.init()
    await tb.driver.init_pcie_dev(tb.rc.find_device(tb.dev.functions[0].pcie_id))
    interface = tb.driver.interfaces[0]
    await interface.open()
    scheduler = interface.sched_blocks[0].schedulers[0]
    await scheduler.rb.write_dword(mqnic.MQNIC_RB_SCHED_RR_REG_CTRL, 1)
    await scheduler.hw_regs.write_dword(0, 3)
    await tb.driver.hw_regs.read_dword(0)
    return tb, interface


async def registers(tb, interface):
    """Every register by its reset value, through the application's BAR; those to be written hold it."""
    bar = tb.driver.app_hw_regs
    for register in PLAN["registers"]:
        name, offset = register["name"], register["offset"]
        value = await bar.read_dword(offset)
        assert value == register["reset"], f"{name}: {value:#x}, not {register['reset']:#x}"
        if register["held"]:
            await bar.write_dword(offset, ~register["reset"] & register["mask"])
            value = await bar.read_dword(offset)
            assert value == ~register["reset"] & register["mask"], f"{name} holds {value:#x}"
            await bar.write_dword(offset, register["reset"])
    return {"registers": len(PLAN["registers"])}


async def counted(tb, counters):
    """Return the values of the counters, by name."""
    bar = tb.driver.app_hw_regs
    return {
        name: await bar.read_dword(offset) | await bar.read_dword(offset + 4) << 32
        for name, (offset, _) in counters.items()
    }


async def exchange(tb, interface, traffic):
    """Send frames from host to wire and from wire to host; all that is seen is the golden model's.

    Corundum inserts the checksum where a step says so. The sum that its driver gets is of the bytes after the
    Ethernet header; Linux judges TCP's and UDP's checksums by it (``CHECKSUM_COMPLETE``).
    """
    mac, before = tb.port_mac[0], await counted(tb, traffic["counters"])
    for step in traffic["tx"]:
        await interface.start_xmit(bytes.fromhex(step["sent"]), 0, *step["insert"])
    for n, step in enumerate(traffic["tx"]):
        what = f"frame {n} for the wire"
        compare(step, (await soon(mac.tx.recv(), what)).data, what)
    for step in traffic["rx"]:
        await mac.rx.send(bytes.fromhex(step["sent"]))
        # Restored frames are longer than the wire's. Half of what the stream carries leaves room for them.
        await Timer(len(bytes.fromhex(step["frame"])) * 64 // JOB["widths"][2] + 20, "ns")
    for n, step in enumerate(traffic["rx"]):
        what = f"frame {n} for the host"
        packet = await soon(interface.recv(), what)
        compare(step, packet.data, what)
        found, expected = packet.rx_checksum, step["sum"]
        assert found == expected, f"{what}: the driver gets the sum {found:#06x}, not {expected:#06x}"
    after = await counted(tb, traffic["counters"])
    wrong = {
        name: f"{after[name] - before[name]}, not {number}"
        for name, (_, number) in traffic["counters"].items()
        if after[name] - before[name] != number
    }
    assert not wrong, f"counters: {wrong}"
    return {"tx": len(traffic["tx"]), "rx": len(traffic["rx"])}


async def tagged(tb, interface):
    """Exchange tagged and untagged frames with complete checksums."""
    return await exchange(tb, interface, PLAN["tagged"])


async def offloads(tb, interface):
    """Exchange frames of the same kinds, with checksums that Corundum inserts."""
    assert interface.if_feature_tx_csum, "Corundum was built without TX checksum offload"
    assert interface.if_feature_rx_csum, "Corundum was built without RX checksum offload"
    return await exchange(tb, interface, PLAN["offloads"])


async def line_rate(tb, interface):
    """Untagged frames from the wire back to back; how many of each size reach the host whole."""
    while interface.recv_nowait() is not None:  # what an earlier stage left
        pass
    arrived = {}
    for size, count in PLAN["line_rate"]:
        frames = [bytes((k + n) % 256 for k in range(size)) for n in range(count)]
        for frame in frames:
            tb.port_mac[0].rx.send_nowait(frame)
        came = []
        try:
            for n in range(count):
                came.append(bytes((await soon(interface.recv(), f"frame {n}")).data))
        except Lost:
            pass
        arrived[size] = [sum(frame in frames for frame in came), count]
        assert all(frame in frames for frame in came), f"{size} bytes: a frame came changed"
        await Timer(1, "us")
    return {"arrived": arrived}


@cocotb.test(timeout_time=50, timeout_unit="ms")
async def inside_corundum(dut):
    tb, interface = await started(dut)
    found = {}
    for stage in (globals()[name] for name in JOB["stages"]):
        try:
            found[stage.__name__] = {"passed": True, **await stage(tb, interface)}
        except AssertionError as error:
            found[stage.__name__] = {"passed": False, "error": str(error).partition("\n")[0]}
        Path(JOB["found"]).write_text(json.dumps(found))
