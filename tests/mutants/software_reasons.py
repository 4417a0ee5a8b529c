# SPDX-License-Identifier: BSD-2-Clause
"""Why mutants of the host library change nothing that can be seen: by file below ``sw`` and place."""

_TIME = "differs only if the clock shows the very time of the limit"
_MARKED = "the marked listener sets the segment size of both ends, and `mesh` marks this one"
_DROPPED = "the line has been dropped, so what follows finds none"
_UNUSED = "an element that nothing reads; sanitizers report it"
_CHOICE = "decides only which kernel is chosen, and all give the same bits"
_PORTABLE = "the portable code takes what is left, with the same bits"
_OWN_READ = "the next header is read by a system call of its own: slower, the same messages"
_HEARD = "what was read before has been heard, and a read that fails adds no object"
_LENGTH = "NumPy takes any negative length for the one that is left"

REASONS: dict[str, dict[str, str]] = {
    "collectives/algorithms/aggregators.py": {
        "aggregate: Lt -> LtE (5)": "one more message is expected ahead",
        "aggregate: without up.drain()": "sums that come down say that all has gone up",
    },
    "collectives/call.py": {
        "Call.exact: False -> True": "the only call says which",
        "Call: True -> False": "nobody assigns to its fields",
    },
    "collectives/settings.py": {
        "GradientKeywords: False -> True": "only type checkers read it",
    },
    "collectives/values/bfloat16.py": {
        "BFloat16.decompress: 1 -> 2": _LENGTH,
    },
    "collectives/values/buffers.py": {
        "ScatterBuffers.store: 1 -> 2": _LENGTH,
        "GatherBuffers.load: 1 -> 2": _LENGTH,
    },
    "collectives/values/lost_energy.py": {
        "Loss.by_outliers: Lt -> LtE": "if nothing is kept the share is 1, which is warned of",
        "(_RUNS, _RUN): 64 -> 65": "the size of a sample",
    },
    "collectives/values/wire_form.py": {
        "Spent: True -> False": "an object with a dictionary does the same",
        "WireForm.send: False -> True": "of an abstract method, which nobody calls",
    },
    "native/choose.c": {
        "struct: * -> +": _CHOICE,
        "fastest: 0 -> 1 (5)": _CHOICE,
        "fastest: 8 -> 9": "an array with one element more",
        "fastest: && -> ||": _CHOICE,
        "make_values: += -> -=": _CHOICE,
        "fastest: && -> || (2)": _CHOICE,
        "fastest: == -> !=": _CHOICE,
        "fastest: < -> <= (4)": "an equal time",
    },
    "native/compress.c": {
        "stream_estimate: * -> + (3)": "what an estimate looks at; where it is too small, all begins again",
    },
    "native/half.c": {
        "bf16_of: > -> >=": "an infinity has no lower bits, so both ways keep its upper half",
    },
    "native/paper/avx2.c": {
        "decode: 0 -> 1 (6)": "the instruction looks at the sign bit alone, which stays 0",
        "decode: + -> - (5)": "the address of a hint to the cache",
        "decode: 32 -> 33": _PORTABLE,
        "make_tables: 256 -> 257": _UNUSED,
    },
    "native/paper/avx512.c": {
        "compress: + -> - (3)": _PORTABLE,
    },
    "native/paper/format.c": {
        "count: < -> <= (3)": _UNUSED,
        "count: 4 -> 5 (2)": _UNUSED,
    },
    "native/paper/scalar.c": {
        "restored: 0 -> 1": "the next line returns where it is used",
    },
    "native/planes/avx2.c": {
        "any_raw_code: & -> | (2)": _PORTABLE,
        "sum_values: <= -> <": _PORTABLE,
    },
    "transport/loopback.py": {
        "LoopbackTransport.__init__: 0 -> 1": "all ranks count from the same number",
        "PACKET_LANES: 362 -> 363": "where threads' data is cut; each packet may be compressed or raw",
    },
    "transport/tcp/acceptor.py": {
        "MAX_CANDIDATES: 128 -> 129": "a limit of memory and descriptors, with room for one stranger more",
    },
    "transport/tcp/channel.py": {
        "Channel.fill: without into.append()": _OWN_READ,
    },
    "transport/tcp/control.py": {
        "Control.pump: without Continue (3)": _DROPPED,
        "Control.pump: without self._hear() (2)": _HEARD,
        "PROTOCOL: 5 -> 6": "all ranks of a test have the same; the number matters beside other versions",
        "Control._drop: without self._writing.discard()": _DROPPED,
        "Control._drop: without self._epoll.unregister()": "the kernel does it when the socket closes",
    },
    "transport/tcp/joining.py": {
        "_welcomed: 1 -> 2": "a limit of memory, with room for one hello more",
    },
    "transport/tcp/mesh.py": {
        "_dial_floats: without tag()": _MARKED,
        "_accept_floats: 0 -> 1 (2)": "who connects has a higher rank than who accepts, so 1 or more",
        "_check: GtE -> Gt": _TIME,
    },
    "transport/tcp/rendezvous.py": {
        "_REFUSAL: 600 -> 601": "a limit of a text, with room for one character more",
    },
    "transport/tcp/transport.py": {
        "TcpTransport._step: 1000 -> 1001": "a wait that nothing ends is a thousandth longer",
        "TcpTransport._run: And -> Or": "rank 0 hears of each wait at once: more messages, the same answers",
        "TcpTransport._step: BitAnd -> BitOr (2)": "a connection that only can be written is read in vain",
        "TcpTransport._rest: without self._poll.unregister()": "what rests ends a wait, which begins anew",
        "TcpTransport._finish: without self._busy.clear()": "a closed transport uses it no more",
        "TcpTransport._finish: GtE -> Gt": "descriptor 0 is standard input",
    },
    "transport/probe.py": {
        "_REPEATS: 128 -> 129": "one more repetition of a measurement",
    },
    "transport/tcp/line.py": {
        "MAX_LINE: 1 -> 2": "a limit of memory",
    },
}
