# SPDX-License-Identifier: BSD-2-Clause
"""SIGTERM and SIGHUP as errors that unwind the stack, so that what was begun is cleaned up."""

import signal
import threading
from types import FrameType
from typing import Any


def unwind_on_signals() -> dict[signal.Signals, Any]:
    """Make both signals raise ``SystemExit(128 + number)``, unless the program has its own handlers.

    Returns the former handlers of those that were changed: none outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    wanted = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    return {number: signal.signal(number, _leave) for number in wanted}


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
