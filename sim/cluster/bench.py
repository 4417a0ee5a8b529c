# SPDX-License-Identifier: BSD-2-Clause
"""The command ``cluster bench``: the rate of tagged floats between two and among four hosts."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from inceptionn.commands.codec_option import Bf16Option
from inceptionn.commands.console import Console, Table
from inceptionn.commands.study import Figure, Study, measurement
from inceptionn.netns import require
from inceptionn.netns.tap import available
from inceptionn.system.options import one_of, whole
from inceptionn.system.programs import usable_processors
from inceptionn.wire import DEFAULT_CODEC

from ..nic_codec import NIC_VARIANTS
from ..nic_options import variants
from .cluster import Cluster
from .commands import Status, verilog_for
from .nics import KINDS
from .program import environment

TARGET = 10e6
"""Bytes of tagged payload per second from one host to another, on two processors."""
_PORT = 7000
_LIMIT = 300.0


@dataclass
class Flow:
    """The figures of one arrangement of hosts. Bytes are tagged payload at the receivers."""

    name: str
    mtu: int
    nic: str
    received: int
    seconds: float
    """Time from the first byte of any parallel transfer to the last byte of all."""
    processor_seconds: float
    """Processor time of models, switch and programs, including the kernel's part."""
    model_seconds: float
    """The models' part of the processor time."""
    cycles: int
    beats_per_cycle: float | None

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.received / self.seconds

    @property
    def per_processor(self) -> float:
        """Bytes per second of processor time, the rate of one processor that does nothing else."""
        return self.received / self.processor_seconds

    @property
    def busy(self) -> float:
        """Average number of busy processors."""
        return self.processor_seconds / self.seconds


def measure(cluster: Cluster, name: str, size: int, targets: dict[int, int]) -> Flow:
    """Measure parallel transfers of ``size`` bytes each. ``targets[sender]`` is the receiver."""
    takers = set(targets.values())
    before, cycles = time.process_time(), sum(nic.cycles for nic in cluster.nics)
    model = sum(nic.seconds for nic in cluster.nics)
    beats = sum(nic.tx_beats + nic.rx_beats for nic in cluster.nics)
    processes = []
    for host in range(cluster.size):
        if host not in takers and host not in targets:
            continue
        target = [f"host{targets[host]}"] if host in targets else []
        argv = [sys.executable, "-m", "inceptionn.sim.cluster.stream", str(_PORT), str(size)]
        variables = {**os.environ, **environment(cluster.hosts, host)}
        processes.append(
            cluster.hosts[host].popen(
                [*argv, str(int(host in takers)), *target], env=variables, stdout=subprocess.PIPE, text=True
            )
        )
    came = []
    deadline = time.monotonic() + _LIMIT
    for process in processes:
        output, _ = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
        cluster.check()
        if process.returncode:
            raise RuntimeError(f"a transfer of {name!r} has failed with status {process.returncode}")
        came.append(json.loads(output.splitlines()[-1]))
    ours = time.process_time() - before
    taken = [each for each in came if each["bytes"]]
    cluster.drain()
    cycles = sum(nic.cycles for nic in cluster.nics) - cycles
    beats = sum(nic.tx_beats + nic.rx_beats for nic in cluster.nics) - beats
    return Flow(
        name,
        cluster.mtu,
        cluster.kinds[0],
        int(sum(each["bytes"] for each in came)),
        max(each["end"] for each in taken) - min(each["begin"] for each in taken),
        ours + sum(each["processor_seconds"] for each in came),
        sum(nic.seconds for nic in cluster.nics) - model,
        cycles,
        beats / cycles if cycles else None,
    )


def table(flows: list[Flow], processors: int) -> Table:
    """Tabulate all figures, rounded."""
    kind = flows[0].nic if flows else "no"
    title = f"tagged floats between virtual hosts, {kind} NICs, {processors} processors"
    found = Table(title, "", *(f"{flow.name}\nMTU {flow.mtu}" for flow in flows))

    def row(name: str, values: list[str]) -> None:
        found.add_row(name, *values)

    row("MB/s, all receivers", [f"{flow.rate / 1e6:.1f}" for flow in flows])
    row("busy processors", [f"{flow.busy:.2f}" for flow in flows])
    row("MB/s per processor", [f"{flow.per_processor / 1e6:.1f}" for flow in flows])
    row("processor time in models",
        [f"{100 * flow.model_seconds / flow.processor_seconds:.0f} %" for flow in flows])  # fmt: skip
    if all(flow.cycles and flow.model_seconds for flow in flows):
        row("cycles/s of a model", [f"{flow.cycles / flow.model_seconds / 1e3:,.0f} k" for flow in flows])
        row("beats/cycle of a model", [f"{flow.beats_per_cycle or 0:.2f}" for flow in flows])
    return found


@measurement()
def bench(
    study: Study,
    size: Annotated[int, typer.Option(metavar="MB", help="Payload of each transfer, in 10^6 bytes.")] = 40,
    mtu: Annotated[list[int] | None, whole(576, 9216, "MTU; repeatable.", metavar="BYTES")] = None,
    nic: Annotated[str, one_of(KINDS, "{}.", metavar="KIND")] = "rtl",
    verilog: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Verilog of inceptionn_nic; default: generated.")
    ] = None,
    codec: Annotated[
        str | None,
        one_of(
            NIC_VARIANTS,
            "{}.",
            metavar="CODEC",
            show_default=f"{DEFAULT_CODEC}; with --verilog the file's",
        ),
    ] = None,
    bf16: Bf16Option = False,
) -> None:
    """Measure the virtual cluster's rate of tagged floats. Takes a minute and needs root.

    The floats are always equal, so there is no seed.
    """
    if not 1 <= size <= 10_000:
        raise typer.BadParameter(f"size must be 1..10000 MB, not {size!r}", param_hint="--size")
    if bf16:
        codec = variants([codec or DEFAULT_CODEC], bf16)[0]
    if verilog is not None:
        verilog_for(["rtl"], None, verilog, lambda text: None)
    require()
    available()
    flows, size = list[Flow](), size * 1_000_000
    step = Status(Console(stderr=True))
    with step:
        codec = codec or (None if verilog else DEFAULT_CODEC)
        path = verilog_for([nic], [codec or DEFAULT_CODEC], verilog, step.say)
        for each in mtu or [1500, 9000]:
            with Cluster(4, nic, verilog=path, codecs=codec, mtu=each, step=step.say) as cluster:
                step.say(f"one way, MTU {each}")
                flows.append(measure(cluster, "one way, 2 hosts", size, {0: 1}))
                step.say(f"four hosts, MTU {each}")
                flows.append(measure(cluster, "ring, 4 hosts, total", size // 4, {0: 1, 1: 2, 2: 3, 3: 0}))
    one_way = max(flow.rate for flow in flows if flow.name.startswith("one way"))
    study.show(
        table(flows, usable_processors()),
        "Processor time is the limit, and most of it is spent in the models. One way, two models run, each "
        "on its own processor. In the ring, four models run in both directions.",
    )
    study.figures.append(Figure("one way", one_way / 1e6, TARGET / 1e6, unit="MB/s"))
    study.rows = [{**asdict(flow), "rate": flow.rate, "per_processor": flow.per_processor} for flow in flows]
    study.facts["flows"] = study.rows
