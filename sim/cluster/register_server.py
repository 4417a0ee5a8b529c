# SPDX-License-Identifier: BSD-2-Clause
"""Access to the NICs' registers at a socket in the cluster's folder, for ``inceptionn regs --cluster``.

A request is a line, ``host0 read 0x018`` or ``host0 write 0x018 0x7f7875``. The answer is also a line: the
value, nothing after a write, or ``error`` and a text.
"""

import os
import socketserver
import threading
from collections.abc import Sequence
from pathlib import Path

from .nics import Nic

SOCKET = "registers"
"""File name of the socket."""


def answer(request: str, nics: Sequence[Nic]) -> str:
    """Return the answer to a request, without a newline."""
    try:
        host, action, *numbers = request.split()
        address, *values = (int(number, 0) for number in numbers)
        number = int(host.removeprefix("host"))
    except ValueError:
        return f"error request must be HOST read ADDRESS or HOST write ADDRESS VALUE, not {request.strip()!r}"
    if not 0 <= number < len(nics):
        return f"error host must be host0..host{len(nics) - 1}, not {host!r}"
    nic = nics[number]
    if not nic.registers:
        return f"error {host} has no NIC with registers"
    register = nic.codec.registers.words.get(address)
    if register is None:
        return f"error {host} has no register at {address:#x}"
    if action == "read" and not values:
        return f"{nic.read_word(address):#010x}"
    if action == "write" and len(values) == 1 and 0 <= values[0] < 1 << 32:
        if register.access == "ro":
            return f"error register {register.name} is read only"
        nic.write_word(address, values[0])
        return ""
    return f"error request must be HOST read ADDRESS or HOST write ADDRESS VALUE, not {request.strip()!r}"


class RegisterServer:
    """Answers at the socket ``folder / SOCKET``, which only its owner can open, until `close`."""

    def __init__(self, folder: Path, nics: Sequence[Nic]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    try:
                        said = answer(line.decode("ascii", "replace"), nics)
                    except Exception as error:  # the NIC has failed, which its pump reports
                        said = f"error {error}".replace("\n", " ")
                    self.wfile.write(f"{said}\n".encode("ascii", "backslashreplace"))

        self._path = folder / SOCKET
        mask = os.umask(0o177)
        try:
            self._server = socketserver.ThreadingUnixStreamServer(str(self._path), Handler)
        finally:
            os.umask(mask)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="registers",
                                        daemon=True)  # fmt: skip
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and remove the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)
