# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn doctor``: what this host can do; each line is the result of a trial."""

import ctypes
import os
import platform
import secrets
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from ..codec import NUMPY, Codec
from ..codec import codec as codec_module
from ..system.extras import pip_install
from ..system.programs import find_program, usable_processors
from ..tos.mark import TosError, tag, tos_of
from ..wire import DEFAULT_TOS, DEFAULT_TOS_MASK
from .console import JsonFile, Output, Table
from .speed import speed

_ETH_P_ALL = 3
_SO_ATTACH_FILTER = 26
_DISCARD = 9
_TO_DISCARD = [
    (0x30, 0, 0, 9),  # the IP header's protocol
    (0x15, 0, 3, socket.IPPROTO_UDP),  # if it is not UDP, 3 on
    (0xB1, 0, 0, 0),  # the IP header's length
    (0x48, 0, 0, 2),  # the port behind it
    (0x15, 1, 0, _DISCARD),  # if it is this, 1 on
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFF),  # keep
]
"""A program of the classic BPF: UDP to the discard port. A capture of all loses packets on a busy host."""
_XILINX = "0x10ee"
_SPEED_LANES = 1 << 22
_PATIENCE = 2.0


class Finding(NamedTuple):
    """One line: ``state`` is "yes", "no" (with the remedy), or "failed", which is an error."""

    name: str
    state: str
    detail: str


def system() -> Finding:
    """Report kernel, interpreter, processors."""
    detail = (
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {usable_processors()} processors"
    )
    return Finding("system", "yes" if sys.platform == "linux" else "no", detail)


def codec() -> Finding:
    """Check the codec: its path, whether it keeps its bound, and its speed."""
    x = np.random.default_rng(1).normal(scale=1e-2, size=100_003).astype(np.float32)
    coder = Codec()
    back = coder.decompress(coder.compress(x), x.size)
    if not np.array_equal(back, coder.lossy(x)) or np.abs(back - x).max() > coder.error_bound:
        return Finding("codec", "failed", f"path {codec_module.active_path()} breaks its error bound")
    rates = speed(count=_SPEED_LANES, repeats=3)
    path, others = codec_module.active_path(), ", ".join(codec_module.available_paths())
    chosen = ", ".join(f"{name} {used}" for name, used in codec_module.operation_paths().items())
    detail = (
        f"{path} ({chosen}): "
        f"compress {rates['compress']:.1f}, decompress {rates['decompress']:.1f} GB/s, one thread, "
        f"{_SPEED_LANES * 4 >> 20} MiB (memcpy {rates['memcpy']:.1f}); available: {others}"
    )
    return Finding("codec", "no" if path == NUMPY else "yes", detail)


def mpi() -> Finding:
    """Report mpi4py, its library, and mpirun."""
    if find_spec("mpi4py") is None:
        return Finding("MPI", "no", f"mpi4py is not installed: {pip_install('mpi')}")
    code = "from mpi4py import MPI; print(MPI.Get_library_version().split(',')[0].splitlines()[0])"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return Finding("MPI", "no", "mpi4py does not start in a minute")
    if done.returncode:
        return Finding("MPI", "no", f"mpi4py does not start: {done.stderr.strip().splitlines()[-1]}")
    run = find_program("mpirun") or "not found"
    return Finding("MPI", "yes", f"{done.stdout.strip()}; mpirun: {run}")


def mark() -> Finding:
    """Check that the kernel takes and keeps the ToS mark."""
    kept = []
    for family, name in ((socket.AF_INET, "IPv4"), (socket.AF_INET6, "IPv6")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                tag(sock)
                size = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
                kept.append(f"{name} {tos_of(sock):#04x}, segments of at most {size} bytes")
        except TosError as error:
            return Finding("ToS mark", "failed", f"{name}: {error}")
        except OSError as error:
            kept.append(f"no {name} ({error.strerror})")
    return Finding("ToS mark", "yes", "; ".join(kept))


def _take_only(program: list[tuple[int, int, int, int]], capture: socket.socket) -> None:
    """Attach a filter, and forget what came before."""
    steps = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    described = struct.pack("@HP", len(program), ctypes.addressof(steps))
    capture.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
    while select.select([capture], [], [], 0)[0]:
        capture.recv(1)


def seen_leaving(peer: str) -> Finding:
    """Check that a datagram to ``peer`` (discard port) still has its mark where it leaves this host."""
    name = "mark seen leaving"
    try:
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    except (PermissionError, AttributeError):
        return Finding(name, "no", "a capture needs root (CAP_NET_RAW) on Linux")
    token = secrets.token_bytes(64)
    with capture, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        _take_only(_TO_DISCARD, capture)
        tag(sender)
        try:
            sender.sendto(token, (peer, _DISCARD))
        except OSError as error:
            return Finding(name, "failed", f"nothing can be sent to {peer}: {error.strerror}")
        deadline = time.monotonic() + _PATIENCE
        while (left := deadline - time.monotonic()) > 0 and select.select([capture], [], [], left)[0]:
            packet, (interface, _, kind, _, _) = capture.recvfrom(2048)
            if kind == socket.PACKET_OUTGOING and token in packet:
                marked = packet[1] & DEFAULT_TOS_MASK == DEFAULT_TOS
                return Finding(
                    name, "yes" if marked else "failed", f"ToS {packet[1]:#04x} to {peer} on {interface}"
                )
    return Finding(name, "failed", f"nothing left for {peer} in {_PATIENCE:g} s (does the address answer?)")


def nic() -> Finding:
    """Report FPGA boards on the PCI bus. Only the ranks together find out whether they compress."""
    boards = []
    for device in sorted(Path("/sys/bus/pci/devices").glob("*")):
        try:
            if (device / "vendor").read_text().strip() == _XILINX:
                boards.append(f"{device.name} (10ee:{(device / 'device').read_text().strip()[2:]})")
        except OSError:
            continue
    asked = "the ranks find out together whether NICs compress: inceptionn.transport.connect(nic=None)"
    if not boards:
        return Finding("NIC", "no", f"no Xilinx device on the PCI bus; {asked}")
    return Finding("NIC", "yes", f"{', '.join(boards)}; {asked}")


def foreign_sockets() -> Finding:
    """Check that ``inceptionn tag`` can reach other processes' sockets."""
    try:
        release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    except ValueError:
        release = (0, 0)
    if sys.platform != "linux" or release < (5, 6):
        return Finding("inceptionn tag", "no", "needs Linux 5.6 or newer")
    who = "of all processes" if os.geteuid() == 0 else "of processes that this user may trace"
    return Finding("inceptionn tag", "yes", f"connections {who}")


def doctor(
    peer: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to send the marked packet.")
    ] = "127.0.0.1",
    json_file: JsonFile = None,
) -> None:
    """Report what this host supports: kernel, codec and its speed, MPI, the ToS mark, NIC.

    Exit status 1 if something fails that should work on every host.
    """
    out = Output(json_file)
    try:
        socket.getaddrinfo(peer, None, socket.AF_INET)
    except OSError as error:
        raise typer.BadParameter(f"no such IPv4 host: {peer!r}", param_hint="--peer") from error
    checks: list[Callable[[], Finding]] = [
        system, codec, mpi, mark, lambda: seen_leaving(peer), foreign_sockets, nic,
    ]  # fmt: skip
    findings = [check() for check in checks]
    table = Table("", "", "", "", left=3, wrap=2)
    for finding in findings:
        table.add_row(*finding)
    out.console.print(table)
    out.write([finding._asdict() for finding in findings])
    if any(finding.state == "failed" for finding in findings):
        raise typer.Exit(1)
