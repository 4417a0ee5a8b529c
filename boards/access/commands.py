# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn regs``: registers by name, over one of the three buses."""

import time
from pathlib import Path
from typing import Annotated

import typer

from inceptionn.commands.codec_option import PaperMode
from inceptionn.commands.console import CsvFile, JsonFile, Output, Table
from inceptionn.system.options import usage_error, whole

from .bar import BarBus
from .bus import Bus
from .cluster import ClusterBus
from .inline import open_uart
from .uart import BAUD

Bar = Annotated[
    Path | None,
    typer.Option("--bar", metavar="FILE", dir_okay=False,
                 help="BAR of a PCIe device: /sys/bus/pci/devices/ADDRESS/resourceN."),
]  # fmt: skip
Offset = Annotated[
    str,
    typer.Option(
        "--offset", metavar="N", help="With --bar: offset of the engine pair's registers, such as 0xa000."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="HOST", help="NIC of this host in a running virtual cluster."),
]
Socket = Annotated[
    Path | None,
    typer.Option("--socket", metavar="FILE", help="With --cluster: socket of the cluster, if several run."),
]
Uart = Annotated[
    Path | None,
    typer.Option("--uart", metavar="FILE", help="Serial line of an inline device or a bring-up design."),
]
Baud = Annotated[int, typer.Option("--baud", metavar="N", help="With --uart: bits per second.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="REGISTER, REGISTER.FIELD or COUNTER.")]


def number(text: str, what: str) -> int:
    """Parse ``"10"`` or ``"0xa"``; ``typer.BadParameter`` for any other text."""
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"{what} must be a number such as 10 or 0xa, not {text!r}") from None


def open_bus(
    bar: Path | None, offset: str, cluster: str | None, socket: Path | None, uart: Path | None, baud: int
) -> Bus:
    """Open the bus that the options name; ``typer.BadParameter`` unless they name exactly one."""
    if sum(choice is not None for choice in (bar, cluster, uart)) != 1:
        raise typer.BadParameter("name one of --bar FILE, --cluster HOST and --uart FILE")
    at = number(offset, "offset")
    with usage_error():
        if bar is not None:
            return BarBus(bar, at)
        if cluster is not None:
            return ClusterBus(cluster, socket)
        assert uart is not None
        return open_uart(uart, baud)


def dump_command(
    bar: Bar = None, offset: Offset = "0", cluster: Cluster = None, socket: Socket = None, uart: Uart = None,
    baud: Baud = BAUD, json_file: JsonFile = None,
) -> None:  # fmt: skip
    """Print every register with its fields, and every counter that is not 0."""
    out = Output(json_file)
    with open_bus(bar, offset, cluster, socket, uart, baud) as bus:
        values = {r.name: bus.read(r.name) for r in bus.registers if r.access != "wo"}
        registers = bus.registers
    table = Table("", "register", "fields", "offset", "value", left=2, wrap=1)
    for name, value in values.items():
        register = registers[name]
        if register.fields:
            fields = ", ".join(f"{part.name} {part.get(value)}" for part in register.fields)
            table.add_row(name, fields, f"{register.offset:#05x}", f"{value:#010x}")
        elif value:
            table.add_row(name, "", f"{register.offset:#05x}", f"{value:,}")
    out.console.print(table)
    out.write(values)


def get_command(
    name: Name, bar: Bar = None, offset: Offset = "0", cluster: Cluster = None, socket: Socket = None,
    uart: Uart = None, baud: Baud = BAUD, json_file: JsonFile = None,
) -> None:  # fmt: skip
    """Print one value: a register or field in hexadecimal, a counter in decimal."""
    out = Output(json_file)
    with open_bus(bar, offset, cluster, socket, uart, baud) as bus:
        with usage_error():
            register, part = bus.find(name)
        value = bus.read(name)
    text = f"{value:#x}" if part else f"{value:#010x}" if register.fields else str(value)
    out.console.print(text)
    out.write({name.upper(): value})


def set_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="REGISTER or REGISTER.FIELD.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value, such as 1 or 0x28.")],
    bar: Bar = None, offset: Offset = "0", cluster: Cluster = None, socket: Socket = None, uart: Uart = None,
    baud: Baud = BAUD,
) -> None:  # fmt: skip
    """Write a register or one field; the register's other bits keep their values."""
    chosen = number(value, "value")
    with open_bus(bar, offset, cluster, socket, uart, baud) as bus, usage_error():
        bus.write(name, chosen)


def bound_command(
    k: Annotated[int, typer.Argument(metavar="K", help="Error bound 2^-K, 1 to 14.")],
    mode: PaperMode = None,
    bar: Bar = None, offset: Offset = "0", cluster: Cluster = None, socket: Socket = None, uart: Uart = None,
    baud: Baud = BAUD,
) -> None:  # fmt: skip
    """Set the error bound 2^-K; it takes effect between two frames."""
    with open_bus(bar, offset, cluster, socket, uart, baud) as bus, usage_error():
        bus.set_bound(k, mode)


def counters_command(
    bar: Bar = None, offset: Offset = "0", cluster: Cluster = None, socket: Socket = None, uart: Uart = None,
    baud: Baud = BAUD,
    watch: Annotated[
        float | None, typer.Option("--watch", metavar="SECONDS", help="Print repeatedly, with rates.")
    ] = None,
    times: Annotated[
        int | None, whole(
            1, 10**9, "With --watch: N times; default: to Ctrl-C.", "--times", metavar="N"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include counters that are 0.")] = False,
    json_file: JsonFile = None, csv_file: CsvFile = None,
) -> None:  # fmt: skip
    """Print the counters. With --watch, --json holds the last values, --csv a row for each time."""
    if watch is not None and not 0 < watch <= 86_400:
        raise typer.BadParameter(f"seconds must be above 0 and at most 86400, not {watch!r}")
    out = Output(json_file, csv_file)
    with open_bus(bar, offset, cluster, socket, uart, baud) as bus:
        begin, before, since, left = time.monotonic(), bus.counters(), time.monotonic(), times
        rows: list[dict[str, float]] = [{"seconds": 0.0, **before}]
        out.console.print(_counter_table(before, {}, 1.0, everything))
        while watch is not None and (left is None or left > 1):
            time.sleep(watch)
            values, now = bus.counters(), time.monotonic()
            out.console.print(_counter_table(values, before, now - since, everything))
            before, since = values, now
            rows.append({"seconds": round(now - begin, 3), **values})
            left = None if left is None else left - 1
    out.write(before, rows)


def _counter_table(values: dict[str, int], before: dict[str, int], seconds: float, everything: bool) -> Table:
    """Tabulate counters.

    With those of ``seconds`` ago, their rates are included.
    """
    table = Table("", "counter", "value", *(["per second"] if before else []))
    for name, value in values.items():
        if value or everything:
            rate = [f"{(value - before[name]) / seconds:,.1f}"] if before else []
            table.add_row(name, f"{value:,}", *rate)
    if not table.rows:
        table.add_row("all", "0", *(["0"] if before else []))
    return table
