# SPDX-License-Identifier: BSD-2-Clause
"""Network addresses as users write them."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[ADDRESS]:PORT``.

    Raises ``ValueError``, ending with the text, for anything else.
    """
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"an address is HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def unspecified(host: str) -> bool:
    """Tell whether an address stands for all addresses of a host, or for none."""
    return host in ("0.0.0.0", "::")
