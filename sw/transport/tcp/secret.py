# SPDX-License-Identifier: BSD-2-Clause
"""Only ranks with the group's secret may join. The secret itself is never sent (``docs/trust.md``)."""

import hmac
import json
import os
import secrets
import stat
from pathlib import Path

from ...system.warning import warn

VARIABLE = "INCEPTIONN_SECRET"
FILE_VARIABLE = "INCEPTIONN_SECRET_FILE"


def secret_of(given: str | bytes | None) -> bytes:
    """Return the secret of this rank; b"" if there is none.

    It is the argument, else ``INCEPTIONN_SECRET``, else the content of the file that
    ``INCEPTIONN_SECRET_FILE`` names, without a final newline.

    Raises ``ValueError`` for an empty secret or a file that cannot be read, so that no group is open by
    mistake. Raises ``TypeError`` for anything but str and bytes. Warns about a file that users other than its
    owner may read or write.
    """
    source = "secret="
    if given is None and (path := os.environ.get(FILE_VARIABLE)) is not None and VARIABLE not in os.environ:
        source = f"the file {path!r} of {FILE_VARIABLE}"
        try:
            with Path(path).open("rb") as file:
                shared = os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
                given = file.read().rstrip(b"\r\n")
        except OSError as error:
            raise ValueError(f"{source} cannot be read: {error.strerror}") from error
        if shared:
            warn(f"{source} is open to other users of this host: chmod 600 {path}")
    elif given is None and VARIABLE in os.environ:
        source, given = VARIABLE, os.environb[VARIABLE.encode()]
    if given is None:
        return b""
    if not isinstance(given, str | bytes):  # bytes(1234) would be 1234 zeros
        raise TypeError(f"secret must be str or bytes, not {type(given).__name__}")
    if not given:
        raise ValueError(f"{source} is empty; give a secret or leave it out")
    return given.encode() if isinstance(given, str) else given


def shared(random: bytes) -> bytes:
    """Return the key of a group whose ranks share random bytes that others may read too.

    Torch's store is an example. The key is the HMAC of these bytes, keyed by this rank's own secret; without
    one, the bytes themselves.
    """
    key = secret_of(None)
    return hmac.digest(key, b"inceptionn group\0" + random, "sha256") if key else random


def missing(rank: int) -> str:
    """Return the message for a rank without the secret."""
    return f"rank {rank} has no secret, rank 0 has one: give secret=, or set {VARIABLE} or {FILE_VARIABLE}"


def differs(one: str, other: str) -> str:
    """Return the message for two ends with different secrets."""
    return f"the secret differs: {one} has another one than {other} (secret=, {VARIABLE}, {FILE_VARIABLE})"


def nonce() -> str:
    """Draw 32 random bytes as 64 hexadecimal digits."""
    return secrets.token_hex(32)


def proof(secret: bytes, purpose: str, *parts: object) -> str:
    """Compute the HMAC-SHA256 over a purpose and ``parts`` as JSON, keyed by the secret.

    The result has 64 hexadecimal digits.
    """
    message = json.dumps([purpose, *parts], sort_keys=True).encode()
    return hmac.new(secret, message, "sha256").hexdigest()


def same(expected: str, found: str) -> bool:
    """Tell whether two proofs are equal, in constant time."""
    return hmac.compare_digest(expected.encode(), found.lower().encode())
