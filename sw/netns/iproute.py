# SPDX-License-Identifier: BSD-2-Clause
"""Calls of iproute2's ``ip`` and ``tc``, and their errors."""

import logging
import os
import shutil
import subprocess
import sys

_log = logging.getLogger(__name__)
_FOLDERS = "/usr/sbin:/sbin:/usr/bin:/bin"
"""Folders in which distributions put programs for root only; not always on PATH."""
_PATIENCE = 60
"""Seconds for one call; they take milliseconds."""


class NetworkError(RuntimeError):
    """A namespace or a link could not be made, or a program in one failed. The text says which and why."""


class NetworkUnavailable(NetworkError):
    """This machine, or this user, cannot make networks. The text says what is missing, and the remedy."""


class KernelLacks(NetworkUnavailable):
    """The kernel was built without a queueing discipline. The text names its module."""


def tool(name: str) -> str:
    """Return the path of a program; `NetworkUnavailable` if it is not installed."""
    found = shutil.which(name) or shutil.which(name, path=_FOLDERS)
    if found is None:
        raise NetworkUnavailable(f"network namespaces need the program '{name}' (package {_PACKAGE[name]})")
    return found


_PACKAGE = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "mount": "util-linux"}


def require() -> None:
    """Check that networks can be made; else `NetworkUnavailable` names all missing parts."""
    missing = []
    if sys.platform != "linux":
        missing.append("Linux")
    elif os.geteuid() != 0:
        missing.append("root (run it with sudo)")
    for name, package in _PACKAGE.items():
        try:
            tool(name)
        except NetworkUnavailable:
            missing.append(f"the program '{name}' (package {package})")
    if missing:
        raise NetworkUnavailable(f"network namespaces need {', '.join(missing)}")


def ip(*arguments: str, namespace: str | None = None) -> str:
    """Return the output of one ``ip`` command, in a namespace if one is named.

    Raises `NetworkError` where it fails.
    """
    where = ["-n", namespace] if namespace else []
    output, answer = _run([tool("ip"), *where, *arguments])
    if answer is not None:
        raise _error(" ".join(["ip", *where, *arguments]), answer)
    return output


def batch(program: str, namespace: str | None, lines: list[str]) -> None:
    """Run several commands of ``ip`` or ``tc`` in one process. `NetworkError` names the first that fails."""
    if not lines:
        return
    where = ["-n", namespace] if namespace else []
    _, answer = _run([tool(program), *where, "-batch", "-"], "\n".join(lines) + "\n")
    if answer is None:
        return
    answer, _, number = answer.partition("Command failed -:")
    failed = int(number) - 1 if number.strip().isdigit() else 0
    raise _error(" ".join([program, *where, lines[failed]]), answer.strip())


def _run(command: list[str], text: str | None = None) -> tuple[str, str | None]:
    """Return a command's output, and its message in one line if it failed, else None."""
    _log.debug("run: %s", " ".join(command))
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise NetworkError(f"{' '.join(command)} did not end within {_PATIENCE} s") from error
    return done.stdout, " ".join((done.stderr or done.stdout).split()) if done.returncode else None


def _error(command: str, answer: str) -> NetworkError:
    if "Operation not permitted" in answer:
        return NetworkUnavailable(
            f"{command}: {answer} (namespaces need the capabilities SYS_ADMIN and NET_ADMIN; a container has "
            "them with --privileged)"
        )
    if "qdisc kind is unknown" in answer:
        return KernelLacks(f"{command}: this kernel has no tbf (kernel module sch_tbf; a rate needs it)")
    return NetworkError(f"{command}: {answer}")
