# SPDX-License-Identifier: BSD-2-Clause
"""Cables with a delay, between interfaces of namespaces. A process carries the frames (`carrier`).

The kernel's netem would do it with less work, but many kernels have none.
"""

import select
import subprocess
import sys

from .iproute import NetworkError
from .tap import Tap

_PATIENCE = 30.0
"""Seconds in which the process begins, and in which it ends."""


class Cables:
    """Cables between pairs of new interfaces, which are down at first.

    Each frame comes out after ``delay`` seconds, in order, and up to about 0.2 ms late; the share ``loss``
    of the frames does not. All cables together carry some 100,000 frames a second.
    """

    def __init__(self, delay: float, loss: float) -> None:
        self.delay, self.loss = delay, loss
        self._taps: list[Tap] = []
        self._carrier: subprocess.Popen[bytes] | None = None

    def lay(self, ends: tuple[tuple[str, str], tuple[str, str]], mtu: int) -> None:
        """Make a cable with these two ends, each a namespace and the interface's name."""
        for namespace, interface in ends:
            self._taps.append(Tap(namespace, interface, mtu))

    def start(self) -> None:
        """Begin to carry frames."""
        numbers = [tap.fd for tap in self._taps]
        command = [sys.executable, "-m", f"{__package__}.carrier"]
        carrier = self._carrier = subprocess.Popen(
            [*command, *map(str, (self.delay, self.loss, *numbers))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, pass_fds=numbers, start_new_session=True,
        )  # fmt: skip
        assert carrier.stdout is not None
        begun = select.poll()
        begun.register(carrier.stdout, select.POLLIN)
        if not begun.poll(1000 * _PATIENCE) or not carrier.stdout.readline():
            raise NetworkError("the process that carries the frames of delayed links has not begun")

    def close(self) -> None:
        """Remove all cables and their interfaces."""
        if self._carrier is not None:
            with self._carrier as carrier:  # which ends with its input
                assert carrier.stdin is not None
                carrier.stdin.close()
                try:
                    carrier.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    carrier.kill()
        for tap in self._taps:
            tap.close()
