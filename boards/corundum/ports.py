# SPDX-License-Identifier: BSD-2-Clause
"""The interface of Corundum's ``mqnic_app_block``, as tables: the ports that its core connects.

From the Corundum repository (BSD-2-Clause), commit 1ca0151b of December 2023, the last before its work
moved to the successor project. Only names, widths and defaults, which an application block must match.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Port(NamedTuple):
    """``direction`` is ``input`` or ``output``; ``width`` a Verilog expression."""

    direction: str
    width: str
    name: str


_IN, _OUT = "input", "output"
_FLIP = {_IN: _OUT, _OUT: _IN}

# An AXI4-Stream's or AXI4-Lite's signals: name, width with {0} for the parameters' prefix, and whether the
# transmitter (the master) drives it.
_LITE = (
    ("awaddr", "{0}_ADDR_WIDTH", True), ("awprot", "3", True), ("awvalid", "1", True),
    ("awready", "1", False), ("wdata", "{0}_DATA_WIDTH", True), ("wstrb", "{0}_STRB_WIDTH", True),
    ("wvalid", "1", True), ("wready", "1", False), ("bresp", "2", False), ("bvalid", "1", False),
    ("bready", "1", True), ("araddr", "{0}_ADDR_WIDTH", True), ("arprot", "3", True), ("arvalid", "1", True),
    ("arready", "1", False), ("rdata", "{0}_DATA_WIDTH", False), ("rresp", "2", False),
    ("rvalid", "1", False), ("rready", "1", True),
)  # fmt: skip
_AXI = (
    ("awid", "ID_WIDTH", True), ("awaddr", "ADDR_WIDTH", True), ("awlen", "8", True), ("awsize", "3", True),
    ("awburst", "2", True), ("awlock", "", True), ("awcache", "4", True), ("awprot", "3", True),
    ("awqos", "4", True), ("awuser", "AWUSER_WIDTH", True), ("awvalid", "", True), ("awready", "", False),
    ("wdata", "DATA_WIDTH", True), ("wstrb", "STRB_WIDTH", True), ("wlast", "", True),
    ("wuser", "WUSER_WIDTH", True), ("wvalid", "", True), ("wready", "", False), ("bid", "ID_WIDTH", False),
    ("bresp", "2", False), ("buser", "BUSER_WIDTH", False), ("bvalid", "", False), ("bready", "", True),
    ("arid", "ID_WIDTH", True), ("araddr", "ADDR_WIDTH", True), ("arlen", "8", True), ("arsize", "3", True),
    ("arburst", "2", True), ("arlock", "", True), ("arcache", "4", True), ("arprot", "3", True),
    ("arqos", "4", True), ("aruser", "ARUSER_WIDTH", True), ("arvalid", "", True), ("arready", "", False),
    ("rid", "ID_WIDTH", False), ("rdata", "DATA_WIDTH", False), ("rresp", "2", False), ("rlast", "", False),
    ("ruser", "RUSER_WIDTH", False), ("rvalid", "", False), ("rready", "", True),
)  # fmt: skip
_DESCRIPTOR = (("dma_addr", "DMA_ADDR_WIDTH"), ("ram_sel", "RAM_SEL_WIDTH"), ("ram_addr", "RAM_ADDR_WIDTH"))
_IMMEDIATE = (("imm", "DMA_IMM_WIDTH"), ("imm_en", "1"))
_RAM = (
    ("wr_cmd_sel", "RAM_SEL_WIDTH", _IN), ("wr_cmd_be", "RAM_SEG_BE_WIDTH", _IN),
    ("wr_cmd_addr", "RAM_SEG_ADDR_WIDTH", _IN), ("wr_cmd_data", "RAM_SEG_DATA_WIDTH", _IN),
    ("wr_cmd_valid", "", _IN), ("wr_cmd_ready", "", _OUT), ("wr_done", "", _OUT),
    ("rd_cmd_sel", "RAM_SEL_WIDTH", _IN), ("rd_cmd_addr", "RAM_SEG_ADDR_WIDTH", _IN),
    ("rd_cmd_valid", "", _IN), ("rd_cmd_ready", "", _OUT), ("rd_resp_data", "RAM_SEG_DATA_WIDTH", _OUT),
    ("rd_resp_valid", "", _OUT), ("rd_resp_ready", "", _IN),
)  # fmt: skip
_PTP = (
    ("clk", "1"), ("rst", "1"), ("sample_clk", "1"), ("td_sd", "1"), ("pps", "1"), ("pps_str", "1"),
    ("sync_locked", "1"), ("sync_ts_rel", "PTP_TS_WIDTH"), ("sync_ts_rel_step", "1"),
    ("sync_ts_tod", "PTP_TS_WIDTH"), ("sync_ts_tod_step", "1"), ("sync_pps", "1"), ("sync_pps_str", "1"),
    ("perout_locked", "PTP_PEROUT_COUNT"), ("perout_error", "PTP_PEROUT_COUNT"),
    ("perout_pulse", "PTP_PEROUT_COUNT"),
)  # fmt: skip


def _times(count: str, width: str) -> str:
    return f"{count}*{width}" if width else count


def _lite(name: str, prefix: str, side: str) -> Iterator[Port]:
    for signal, width, driven in _LITE:
        direction = _OUT if driven == (side == "m") else _IN
        yield Port(direction, width.format(prefix), f"{name}_{signal}")


def _dma(kind: str) -> Iterator[Port]:
    for way in ("read", "write"):
        base = f"m_axis_{kind}_dma_{way}_desc"
        fields = [*_DESCRIPTOR, *(_IMMEDIATE if way == "write" else ())]
        for name, width in (*fields, ("len", "DMA_LEN_WIDTH"), ("tag", "DMA_TAG_WIDTH"), ("valid", "1")):
            yield Port(_OUT, width, f"{base}_{name}")
        yield Port(_IN, "1", f"{base}_ready")
        for name, width in (("tag", "DMA_TAG_WIDTH"), ("error", "4"), ("valid", "1")):
            yield Port(_IN, width, f"s_axis_{kind}_dma_{way}_desc_status_{name}")


def _stream(tap: str, way: str) -> Iterator[Port]:
    """Yield both sides of a tap's stream, ``s_axis_*`` in and ``m_axis_*`` out."""
    count = "IF_COUNT" if tap == "if" else "PORT_COUNT"
    prefix = {"direct": "AXIS", "sync": "AXIS_SYNC", "if": "AXIS_IF"}[tap]
    user = f"{prefix}_{way.upper()}"
    signals = [("tdata", f"{prefix}_DATA_WIDTH"), ("tkeep", f"{prefix}_KEEP_WIDTH"), ("tvalid", "")]
    signals += [("tready", ""), ("tlast", "")]
    signals += [("tid", f"{user}_ID_WIDTH"), ("tdest", f"{user}_DEST_WIDTH")] if tap == "if" else []
    signals += [("tuser", f"{user}_USER_WIDTH")]
    for side, direction in (("s", _IN), ("m", _OUT)):
        for name, width in signals:
            actual = _FLIP[direction] if name == "tready" else direction
            yield Port(actual, _times(count, width), f"{side}_axis_{tap}_{way}_{name}")


def _completion(tap: str) -> Iterator[Port]:
    count = "IF_COUNT" if tap == "if" else "PORT_COUNT"
    for side, direction in (("s", _IN), ("m", _OUT)):
        for name, width in (("ts", "PTP_TS_WIDTH"), ("tag", "TX_TAG_WIDTH"), ("valid", ""), ("ready", "")):
            actual = _FLIP[direction] if name == "ready" else direction
            yield Port(actual, _times(count, width), f"{side}_axis_{tap}_tx_cpl_{name}")


def _memory(kind: str) -> Iterator[Port]:
    count = f"{kind.upper()}_CH"
    yield Port(_IN, count, f"{kind}_clk")
    yield Port(_IN, count, f"{kind}_rst")
    for name, width, driven in _AXI:
        full = f"AXI_{kind.upper()}_{width}" if width.endswith("WIDTH") else width
        yield Port(_OUT if driven else _IN, _times(count, full), f"m_axi_{kind}_{name}")
    yield Port(_IN, count, f"{kind}_status")


def ports() -> list[Port]:
    """Return all ports, in Corundum's order."""
    found = [Port(_IN, "1", "clk"), Port(_IN, "1", "rst")]
    found += _lite("s_axil_app_ctrl", "AXIL_APP_CTRL", "s")
    found += _lite("m_axil_ctrl", "AXIL_CTRL", "m")
    for kind in ("ctrl", "data"):
        found += _dma(kind)
    for kind in ("ctrl", "data"):
        for name, width, direction in _RAM:
            found.append(Port(direction, _times("RAM_SEG_COUNT", width), f"{kind}_dma_ram_{name}"))
    found += [Port(_IN, width, f"ptp_{name}") for name, width in _PTP]
    for tap in ("direct", "sync", "if"):
        clock = "IF_COUNT" if tap == "if" else "PORT_COUNT"
        for way in ("tx", "rx"):
            if tap == "direct":
                found += [Port(_IN, clock, f"direct_{way}_clk"), Port(_IN, clock, f"direct_{way}_rst")]
            found += _stream(tap, way)
            found += _completion(tap) if way == "tx" else []
    found += [*_memory("ddr"), *_memory("hbm")]
    found += [
        Port(_OUT, "STAT_INC_WIDTH", "m_axis_stat_tdata"), Port(_OUT, "STAT_ID_WIDTH", "m_axis_stat_tid"),
        Port(_OUT, "1", "m_axis_stat_tvalid"), Port(_IN, "1", "m_axis_stat_tready"),
        Port(_IN, "APP_GPIO_IN_WIDTH", "gpio_in"), Port(_OUT, "APP_GPIO_OUT_WIDTH", "gpio_out"),
        Port(_IN, "1", "jtag_tdi"), Port(_OUT, "1", "jtag_tdo"), Port(_IN, "1", "jtag_tms"),
        Port(_IN, "1", "jtag_tck"),
    ]  # fmt: skip
    return found


def port_list() -> str:
    """Write the ports as Verilog declarations."""
    lines = []
    for port in ports():
        span = "" if port.width == "1" else f" [{port.width}-1:0]"
        lines.append(f"    {port.direction} wire{span} {port.name}")
    return ",\n".join(lines)


def tie_offs() -> str:
    """Write assignments for every output that the engines do not drive.

    Taps pass through, the rest is idle.
    """
    by_name = {port.name: port for port in ports()}
    lines = []
    for port in ports():
        if port.direction == _IN or port.name.startswith("s_axil_app_ctrl_"):
            continue
        if "_sync_tx_t" in port.name or "_sync_rx_t" in port.name:
            continue  # the engines'
        other = {"s_": "m_", "m_": "s_"}.get(port.name[:2], "") + port.name[2:]
        tap = any(f"axis_{tap}_" in port.name for tap in ("direct", "sync", "if"))
        source = other if tap and by_name[other].direction == _IN else _IDLE.get(port.name, "0")
        lines.append(f"assign {port.name} = {source};")
    return "\n".join(lines)


_IDLE = {"jtag_tdo": "jtag_tdi"} | {
    f"{kind}_dma_ram_{name}": f"{kind}_dma_ram_{source}"
    for kind in ("ctrl", "data")
    for name, source in (
        ("wr_cmd_ready", "wr_cmd_valid"),
        ("wr_done", "wr_cmd_valid"),
        ("rd_cmd_ready", "rd_resp_ready"),
        ("rd_resp_valid", "rd_cmd_valid"),
    )
}
"""Outputs other than 0: the scan chain stays closed, and a RAM answers every request."""
