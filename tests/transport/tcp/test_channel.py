# SPDX-License-Identifier: BSD-2-Clause
"""One connection of messages; the test is at its other end."""

import select
import socket
import struct

from inceptionn.transport.tcp.channel import Channel, Transfer
from inceptionn.transport.tcp.rendezvous import listen


def test_a_receive_wakes_for_the_last_byte_of_a_header() -> None:
    """The kernel may deliver a header in two parts, and an empty message has nothing else."""
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname(), 10) as theirs:
        channel = Channel(listener.accept()[0], 1, framed=True)
        with channel.sock:
            receive = Transfer(1, memoryview(bytearray(4)), lambda transfer, timeout: None)
            channel.post_receive(receive)
            poll = select.poll()
            header = struct.pack("<Q", 0)
            for part in (header[:-1], header[-1:]):
                assert not receive.done
                poll.register(channel.sock, channel.awaited())
                theirs.sendall(part)
                assert poll.poll(10_000)
                channel.fill()
            assert receive.done
