# SPDX-License-Identifier: BSD-2-Clause
"""Why mutants of the host library change nothing that can be seen: by file below ``sw``, line and change."""

_TIME = "differs only if the clock shows the very time of the limit"
_MARKED = "the marked listener sets the segment size of both ends, and `mesh` marks this one"
_DROPPED = "the line has been dropped, so what follows finds none"
_UNUSED = "an element that nothing reads; sanitizers report it"
_CHOICE = "decides only which kernel is chosen, and all give the same bits"
_PORTABLE = "the portable code takes what is left, with the same bits"
_LENGTH = "NumPy takes any negative length for the one that is left"

REASONS: dict[str, dict[tuple[str, str], str]] = {
    "collectives/algorithms/aggregators.py": {
        (
            "while place.children and len(below) < POSTED and gone_up + len(below) < subs:",
            "Lt -> LtE",
        ): "one more message is expected ahead",
        ("up.drain()", "without `up.drain()`"): "sums that come down say that all has gone up",
    },
    "collectives/call.py": {
        ("exact: bool = False", "False -> True"): "the only call says which",
        ("@dataclass(frozen=True)", "True -> False (2)"): "nobody assigns to its fields",
    },
    "collectives/settings.py": {
        ("class GradientKeywords(_WayKeywords, total=False):", "False -> True"): "only type checkers read it",
    },
    "collectives/values/bfloat16.py": {
        ("into = None if out is None else out.reshape(-1)", "1 -> 2"): _LENGTH,
    },
    "collectives/values/buffers.py": {
        ("into = self.receive.reshape(-1)[: own.size] if self.in_place else self.receive", "1 -> 2"): _LENGTH,
        (
            "lanes: Lanes = self.receive.reshape(-1) if direct else np.empty(self.receive.size, np.float32)",
            "1 -> 2",
        ): _LENGTH,
    },
    "collectives/values/lost_energy.py": {
        (
            "return math.isfinite(self.share) and 0 < self.kept <= few and self.count >= _ENOUGH",
            "Lt -> LtE",
        ): "if nothing is kept the share is 1, which is warned of",
        ("_RUNS, _RUN = 64, 64", "64 -> 65"): "the size of a sample",
    },
    "collectives/values/wire_form.py": {
        ("@dataclass(slots=True)", "True -> False"): "an object with a dictionary does the same",
        (
            "def send(self, peers: Sequence[int], lanes: Lanes, *, settle: bool = False) -> int:",
            "False -> True",
        ): "of an abstract method, which nobody calls",
    },
    "native/choose.c": {
        (
            "uint8_t stream[BLOCKS * MAX_BLOCK_BYTES + SLACK], sums[BLOCKS * MAX_BLOCK_BYTES];",
            "* -> +",
        ): _CHOICE,
        ("for (int round = 0; count > 1 && round < ROUNDS; round++)", "0 -> 1"): _CHOICE,
        ("const kernel *candidates[8];", "8 -> 9"): "an array with one element more",
        (
            "if (kernels[i]->supported() && kernels[i]->coders[codec] != kernels[i + 1]->coders[codec]) {",
            "&& -> ||",
        ): _CHOICE,
        ("sum += (float)(int32_t)state * 0x1p-31f;", "+= -> -="): _CHOICE,
        ("if (operation == SUM && !candidates[0]->coders[codec]->sum)", "&& -> ||"): _CHOICE,
        (
            "const parameters p = {.e0 = 117, .t = 122, .b = 122, .lattice = operation == SUM};",
            "== -> !=",
        ): _CHOICE,
        ("least[i] = took < least[i] ? took : least[i];", "< -> <="): "an equal time",
    },
    "native/compress.c": {
        (
            "const void *from = values_from(x, s.source, lanes / PARTS * part);",
            "* -> +",
        ): "what an estimate looks at; where it is too small, all begins again",
    },
    "native/half.c": {
        (
            "return (uint16_t)(select_bits((f & 0x7FFFFFFF) > 0x7F800000, nan, rounded) >> 16);",
            "> -> >=",
        ): "an infinity has no lower bits, so both ways keep its upper half",
    },
    "native/paper/avx2.c": {
        (
            "const __m256 raw = _mm256_castsi256_ps(_mm256_setr_epi32(0, 0, 0, -1, 0, 0, 0, -1));",
            "0 -> 1 (2)",
        ): "the instruction looks at the sign bit alone, which stays 0",
        ("fetch_ahead(addend + at);", "+ -> -"): "the address of a hint to the cache",
        ("for (; done + 32 <= lanes; done += 32) {", "32 -> 33"): _PORTABLE,
        ("for (unsigned four = 0; four < 256; four++) {", "256 -> 257"): _UNUSED,
    },
    "native/paper/avx512.c": {
        ("for (; done + 16 <= lanes; done += 16) {", "+ -> -"): _PORTABLE,
    },
    "native/paper/format.c": {
        ("for (unsigned tag = 0; tag < 4; tag++)", "< -> <="): _UNUSED,
        ("for (unsigned tag = 0; tag < 4; tag++)", "4 -> 5"): _UNUSED,
    },
    "native/paper/scalar.c": {
        (
            "const int first_one = magnitude ? __builtin_clz(magnitude) : 0;",
            "0 -> 1",
        ): "the next line returns where it is used",
    },
    "native/planes/avx2.c": {
        ("return codes & codes >> 1 & codes >> 2 & codes >> 3 & 0x1111;", "& -> | (2)"): _PORTABLE,
        ("for (; done + STEP <= lanes; done += STEP) {", "<= -> < (3)"): _PORTABLE,
    },
    "transport/loopback.py": {
        ("self._round = 0", "0 -> 1"): "all ranks count from the same number",
        (
            "PACKET_LANES = 362",
            "362 -> 363",
        ): "where threads' data is cut; each packet may be compressed or raw",
    },
    "transport/tcp/acceptor.py": {
        (
            "MAX_CANDIDATES = 128",
            "128 -> 129",
        ): "a limit of memory and descriptors, with room for one stranger more",
    },
    "transport/tcp/channel.py": {
        (
            "into.append(self._header[self._have :])",
            "without `into.append(self._header[self._have:])`",
        ): "the next header is read by a system call of its own: slower, the same messages",
    },
    "transport/tcp/control.py": {
        ("continue", "without `continue` (2)"): _DROPPED,
        (
            "self._hear(peer)",
            "without `self._hear(peer)` (3)",
        ): "what was read before has been heard, and a read that fails adds no object",
        (
            "PROTOCOL = 5",
            "5 -> 6",
        ): "all ranks of a test have the same; the number matters beside other versions",
        ("self._writing.discard(peer)", "without `self._writing.discard(peer)`"): _DROPPED,
        (
            "self._epoll.unregister(line.sock.fileno())",
            "without `self._epoll.unregister(line.sock.fileno())`",
        ): "the kernel does it when the socket closes",
    },
    "transport/tcp/joining.py": {
        (
            "line.trust(min(MAX_LINE, (size + 1) * HELLO_BYTES))",
            "1 -> 2",
        ): "a limit of memory, with room for one hello more",
    },
    "transport/tcp/mesh.py": {
        ("tag(sock, terms.tos, peer=address)", "without `tag(sock, terms.tos, peer=address)`"): _MARKED,
        ("if peer < 0:", "0 -> 1"): "who connects has a higher rank than who accepts, so 1 or more",
        ("if expected and time.monotonic() >= deadline:", "GtE -> Gt"): _TIME,
    },
    "transport/tcp/rendezvous.py": {
        ("_REFUSAL = 600", "600 -> 601"): "a limit of a text, with room for one character more",
    },
    "transport/tcp/transport.py": {
        (
            "for fd, events in self._poll.poll(timeout * 1000):",
            "1000 -> 1001",
        ): "a wait that nothing ends is a thousandth longer",
        (
            "if quiet >= limit / 2 and not told:",
            "And -> Or",
        ): "rank 0 hears of each wait at once: more messages, the same answers",
        (
            "if channel.receives and events & ~select.POLLOUT:",
            "BitAnd -> BitOr",
        ): "a connection that can only be written is read, too, in vain",
        (
            "self._poll.unregister(fd)",
            "without `self._poll.unregister(fd)`",
        ): "a connection at rest ends a wait, which begins anew",
        ("self._busy.clear()", "without `self._busy.clear()`"): "a closed transport uses it no more",
        (
            "if wake >= 0:  # -1 if another thread finishes at the same time",
            "GtE -> Gt",
        ): "descriptor 0 is standard input",
    },
    "transport/probe.py": {
        ("_REPEATS = 128", "128 -> 129"): "one more repetition of a measurement",
    },
    "transport/tcp/line.py": {
        ("MAX_LINE = 1 << 24", "1 -> 2"): "a limit of memory",
    },
}
