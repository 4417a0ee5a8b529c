# SPDX-License-Identifier: BSD-2-Clause
"""Why mutants of the host library change nothing that can be seen: by place below ``sw``, and change."""

_TIME = "differs only if the clock shows the very time of the limit"
_MARKED = "the marked listener sets the segment size of both ends, and line 78 marks this one"
_DROPPED = "the line has been dropped, so what follows finds none"
_UNUSED = "an element that nothing reads; sanitizers report it"
_CHOICE = "decides only which kernel is chosen, and all give the same bits"
_PORTABLE = "the portable code takes what is left, with the same bits"
_LENGTH = "NumPy takes any negative length for the one that is left"

REASONS: dict[str, dict[str, str]] = {
    "collectives/algorithms/aggregators.py:108": {"Lt -> LtE": "one more message is expected ahead"},
    "collectives/call.py:58": {"True -> False": "nobody assigns to its fields"},
    "collectives/call.py:71": {"False -> True": "the only call says which"},
    "collectives/settings.py:58": {"False -> True": "only type checkers read it"},
    "collectives/values/bfloat16.py:73": {"1 -> 2": _LENGTH},
    "collectives/values/buffers.py:212": {"1 -> 2": _LENGTH},
    "collectives/values/buffers.py:229": {"1 -> 2": _LENGTH},
    "collectives/values/lost_energy.py:22": {"64 -> 65": "the size of a sample"},
    "collectives/values/wire_form.py:56": {"True -> False": "an object with a dictionary does the same"},
    "collectives/values/lost_energy.py:131": {
        "3 -> 4": "which line of the library a warning names; the caller's is farther"
    },
    "collectives/values/lost_energy.py:59": {
        "Lt -> LtE": "if nothing is kept the share is 1, which is warned of"
    },
    "native/choose.c:25": {"* -> +": _CHOICE},
    "native/choose.c:39": {"+= -> -=": _CHOICE},
    "native/choose.c:72": {"== -> !=": _CHOICE},
    "native/choose.c:73": {"8 -> 9": "an array with one element more"},
    "native/choose.c:78": {"&& -> ||": _CHOICE},
    "native/choose.c:85": {"&& -> ||": _CHOICE},
    "native/choose.c:87": {"0 -> 1": _CHOICE},
    "native/choose.c:92": {"< -> <=": "an equal time"},
    "native/compress.c:163": {"* -> +": "what an estimate looks at; where it is too small, all begins again"},
    "native/half.c:19": {"> -> >=": "an infinity has no lower bits, so both ways keep its upper half"},
    "native/paper/avx2.c:32": {"256 -> 257": _UNUSED},
    "native/paper/avx2.c:157": {"0 -> 1": "the instruction looks at the sign bit alone, which stays 0"},
    "native/paper/avx2.c:160": {"32 -> 33": _PORTABLE},
    "native/paper/avx2.c:167": {"+ -> -": "the address of a hint to the cache"},
    "native/paper/avx512.c:72": {"+ -> -": _PORTABLE},
    "native/paper/format.c:17": {"4 -> 5": _UNUSED, "< -> <=": _UNUSED},
    "native/paper/scalar.c:50": {"0 -> 1": "the next line returns where it is used"},
    "native/planes/avx2.c:249": {"& -> |": _PORTABLE},
    "native/planes/avx2.c:304": {"<= -> <": _PORTABLE},
    "transport/loopback.py:39": {
        "362 -> 363": "where threads' data is cut; each packet may be compressed or raw",
    },
    "transport/tcp/control.py:147": {
        "without `continue`": "no line is complete, so what follows finds nothing to do",
    },
    "transport/tcp/control.py:151": {
        "without `continue`": _DROPPED,
    },
    "transport/tcp/control.py:263": {
        "without `self._writing.discard(peer)`": _DROPPED,
    },
    "transport/tcp/control.py:264": {
        "without `self._epoll.unregister(line.sock.fileno())`": "the kernel does it when the socket closes",
    },
    "transport/tcp/control.py:33": {"30000 -> 30001": "a millisecond of a kernel's time limit"},
    "transport/tcp/joining.py:134": {
        "1 -> 2": "a limit of memory, with room for one hello more",
    },
    "transport/tcp/line.py:114": {
        "False -> True": "the library always says which; tests alone use the default, for short lines",
    },
    "transport/tcp/mesh.py:180": {
        "without `tag(sock, terms.tos, peer=address)`": _MARKED,
    },
    "transport/tcp/mesh.py:213": {"0 -> 1": "who connects has a higher rank than who accepts, so 1 or more"},
    "transport/tcp/mesh.py:222": {
        "GtE -> Gt": _TIME,
    },
    "transport/tcp/transport.py:182": {
        "And -> Or": "rank 0 hears of each wait at once: more messages, the same answers",
        "GtE -> Gt": _TIME,
    },
    "transport/tcp/transport.py:235": {
        "BitAnd -> BitOr": "a connection that can only be written is read, too, in vain",
    },
    "transport/tcp/transport.py:253": {
        "without `self._poll.unregister(fd)`": "a connection at rest ends a wait, which begins anew",
    },
    "transport/tcp/transport.py:294": {
        "without `self._busy.clear()`": "a closed transport uses it no more",
    },
    "transport/tcp/transport.py:296": {
        "GtE -> Gt": "descriptor 0 is standard input",
    },
}
