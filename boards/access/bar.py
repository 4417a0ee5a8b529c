# SPDX-License-Identifier: BSD-2-Clause
"""Registers in a PCIe memory region (BAR), through Linux's ``resourceN`` file of the device."""

import ctypes
import mmap
import os
from pathlib import Path

from .bus import WORD_BYTES, Bus, BusError


class BarBus(Bus):
    """The registers from byte ``offset`` of a BAR on; each access is one 32-bit load or store.

    Parameters
    ----------
    path
        ``/sys/bus/pci/devices/<address>/resource<N>`` (Linux, Documentation/PCI/sysfs-pci.rst), or any file.
    offset
        Byte offset of the engine pair's first register; the board's README names it.

    Raises ``OSError`` where the file cannot be mapped, ``ValueError`` for an offset outside of it; an access
    raises `BusError` if the file has become shorter than that.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path, self.offset = path, offset
        descriptor = os.open(path, os.O_RDWR | os.O_SYNC | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            last = max(self.registers.words) + WORD_BYTES
            if offset < 0 or offset % WORD_BYTES or offset + last > size:
                raise ValueError(
                    f"offset must be a multiple of {WORD_BYTES} with {last} bytes before the end of the "
                    f"{size} bytes of {str(path)!r}, not {offset:#x}"
                )
            self._memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        try:
            self.identify()
        except BusError as error:
            self.close()
            raise BusError(
                f"{error} (offset {offset:#x} of {str(path)!r}; all ones mean that the device is not enabled)"
            ) from None

    def _word(self, address: int) -> ctypes.c_uint32:
        """Return a register; a load or store beyond the end of its file would kill the process."""
        place, size = self.offset + address, self._memory.size()  # of the file, at this moment
        if place + WORD_BYTES > size:
            raise BusError(f"{str(self.path)!r} has shrunk to {size} bytes; the register is at {place:#x}")
        return ctypes.c_uint32.from_buffer(self._memory, place)

    def read32(self, address: int) -> int:
        return self._word(address).value

    def write32(self, address: int, value: int) -> None:
        self._word(address).value = value

    def close(self) -> None:
        self._memory.close()
