# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design in one clock domain: everything but pins and clocks."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.attach.uart import UARTReceiver, UARTTransmitter
from inceptionn.hdl.parts.delay import delayed
from inceptionn.hdl.parts.queue import PushQueue
from inceptionn.wire import DEFAULT_K, DEFAULT_MODE, parameters

from .commands import CommandParser
from .counters import RateMeter, WideCounter
from .data_path import DataPath, DataPathConfig, Probe
from .messages import MESSAGES
from .printer import Printer, assemble
from .registers import BOUNDS, VALUES, VERDICTS, Fault
from .traffic.patterns import PATTERNS, bound_config, pattern_config

LEDS = 8
RESET_CYCLES = 16
"""Cycles in which the data path is held in reset before a start; its settings change in the first."""
PATIENCE = 4096
"""Cycles without a beat, with a packet in flight, that count as a hang. The largest takes about 700."""
ERRORS = ("mismatched", "beyond_bound", "wrong_size", "wrong_format", "hangs")
RATE_STEPS = (4, 8, 12, 15)
"""Sixteenths of the cycles with a beat from which on the rate LEDs light."""


class BringUpCore(wiring.Component):
    """Tests the engines without a host: starts by itself and reports on LEDs and a serial line.

    =====  ==============================================================================================
    LED    lit
    =====  ==============================================================================================
    0      blinks once a second: the clock runs
    1      packets are being sent
    2      pass: packets came back, none of them wrong
    3      fail: something was wrong since the last ``clear`` or reset
    4..7   beats came back in at least 4, 8, 12 and 15 of 16 cycles
    =====  ==============================================================================================

    Parameters
    ----------
    clock_hz : :class:`int`
        Frequency of ``sync``; sets the second and the serial line's bit.
    baud : :class:`int`
        Bits per second.
    second : :class:`int` or None
        Cycles between two reports, ``clock_hz`` if None; a simulation takes fewer.
    rate_window : :class:`int`
        Cycles over which the rate LEDs look, a power of two.
    """

    def __init__(
        self, clock_hz: int, *, baud: int = 115_200, second: int | None = None, rate_window: int = 1 << 20
    ):
        if rate_window < 16 or rate_window & (rate_window - 1):
            raise ValueError(f"rate window must be a power of two of at least 16 cycles, not {rate_window!r}")
        self.clock_hz = clock_hz
        self.baud = baud
        self.second = clock_hz if second is None else second
        self.rate_window = rate_window
        self.divisor = round(clock_hz / baud)
        super().__init__(
            {
                "rx": In(1),  #: Serial line in, asynchronous.
                "tx": Out(1, init=1),  #: Serial line out.
                "leds": Out(LEDS),  #: As in the table.
                "probe_sent": Out(Probe()),  #: See :class:`DataPath`.
                "probe_wire": Out(Probe()),  #: See :class:`DataPath`.
                "probe_restored": Out(Probe()),  #: See :class:`DataPath`.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._running = Signal(init=1)
        self._tick = Signal()
        self._clear = Signal(init=1)
        self._restart = Signal(init=1)
        path = self._path(m)
        self._seconds(m)
        counts = self._count(m, path)
        self._console(m, counts)
        self._show(m, path)
        return m

    # Settings and the start of the data path.

    def _path(self, m: Module) -> DataPath:
        self._pattern = Signal(range(len(PATTERNS)))
        self._k = Signal(4, init=DEFAULT_K)
        self._inject = Signal()
        self._fault = Signal(2)
        path = DataPath()
        reset = Signal(init=1)
        m.submodules.path = ResetInserter(reset)(path)
        left = Signal(range(RESET_CYCLES), init=RESET_CYCLES - 1)
        m.d.sync += [reset.eq(left != 0), self._restart.eq(0)]
        with m.If(self._restart):
            m.d.sync += [left.eq(RESET_CYCLES - 1), reset.eq(1)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        self._in_reset = reset
        config = Signal(DataPathConfig)
        with m.If(reset):
            m.d.sync += self._settings(config)
        m.d.comb += [
            path.config.eq(config),
            path.run.eq(self._running),
            path.inject.eq(self._inject),
            path.fault.eq(self._fault),
        ]
        for name in ("probe_sent", "probe_wire", "probe_restored"):
            inner, outer = getattr(path, name), getattr(self, name)
            m.d.comb += [
                getattr(outer, member).eq(getattr(inner, member)) for member in outer.signature.members
            ]
        return path

    def _settings(self, config: Any) -> list[Any]:
        """Look up the data path's settings by the numbers of pattern and bound."""

        def look_up(rows: list[int], index: Value) -> Value:
            return Array(Const(row, 32) for row in rows)[index]

        statements = []
        for name in ("shifts8", "shifts16", "e0", "b"):
            rows = [bound_config(max(k, 1))[name] for k in range(BOUNDS.stop)]
            statements.append(getattr(config.source, name).eq(look_up(rows, self._k)))
        for name in ("least", "spread"):
            rows = [pattern_config(pattern, DEFAULT_K)[name] for pattern in PATTERNS]
            statements.append(getattr(config.source, name).eq(look_up(rows, self._pattern)))
        plain, without = (
            look_up([pattern_config(pattern, k)["palette"] for pattern in PATTERNS], self._pattern)
            for k in (DEFAULT_K, 1)
        )
        t = [parameters(max(k, 1), DEFAULT_MODE).t for k in range(BOUNDS.stop)]
        statements += [
            config.source.palette.eq(Mux(self._k == 1, without, plain)),
            config.t.eq(look_up(t, self._k)),
            config.k.eq(self._k),
        ]
        return statements

    def _seconds(self, m: Module) -> None:
        timer = Signal(range(self.second))
        self._heart = Signal()
        m.d.sync += [self._tick.eq(timer == self.second - 1), timer.eq(timer + 1)]
        with m.If(timer == self.second - 1):
            m.d.sync += timer.eq(0)
        with m.If((timer == self.second - 1) | (timer == self.second // 2)):
            m.d.sync += self._heart.eq(~self._heart)

    # Counters and verdict.

    def _count(self, m: Module, path: DataPath) -> dict[str, Value]:
        events = path.events
        hang = self._hang(m, path)
        adds = {
            "packets": events.packet,
            "values": events.lanes,
            "wire": path.wire_bytes,
            "mismatched": events.mismatched,
            "beyond_bound": events.beyond_bound,
            "wrong_size": events.wrong_size,
            "wrong_format": events.wrong_format,
            "hangs": hang,
            "seconds": self._tick,
        }
        counts: dict[str, Value] = {}
        for name, add in adds.items():
            counter = m.submodules[f"count_{name}"] = WideCounter(len(add))
            m.d.comb += [counter.add.eq(add), counter.clear.eq(self._clear)]
            counts[name] = counter.value
        for name, add in (("values_rate", events.lanes), ("wire_rate", path.wire_bytes)):
            meter = m.submodules[name] = RateMeter()
            m.d.comb += [meter.add.eq(add), meter.tick.eq(self._tick)]
            counts[name] = meter.value
        counts |= {"pattern": self._pattern, "bound": self._k}

        self._failed = Signal()
        self._passed = Signal()
        wrong = Signal()
        m.d.sync += [
            wrong.eq(hang | Cat(adds[name].any() for name in ERRORS[:-1]).any()),
            self._failed.eq(self._failed | wrong),
            self._passed.eq((self._passed | events.packet) & ~self._failed & ~wrong),
        ]
        with m.If(self._clear):
            m.d.sync += [self._failed.eq(0), self._passed.eq(0), wrong.eq(0)]
        return counts

    def _hang(self, m: Module, path: DataPath) -> Signal:
        """Pulse for one cycle whenever expected beats have been missing for :data:`PATIENCE` cycles."""
        waiting = Signal(range(PATIENCE))
        under_way = Signal(16)
        hang = Signal()
        m.d.sync += [hang.eq(0), under_way.eq(under_way + path.sent - path.events.packet)]
        with m.If(self._in_reset):
            m.d.sync += [under_way.eq(0), waiting.eq(0)]
        with m.Elif(path.events.beat | ~(self._running | under_way.any())):
            m.d.sync += waiting.eq(0)
        with m.Else():
            m.d.sync += [waiting.eq(waiting + 1), hang.eq(waiting == PATIENCE - 1)]
        return hang

    def _show(self, m: Module, path: DataPath) -> None:
        window = Signal(range(self.rate_window))
        beats = Signal(range(self.rate_window + 1))
        sixteenth = self.rate_window // 16
        steps = Signal(len(RATE_STEPS))
        beat = Signal()
        m.d.sync += [beat.eq(path.events.beat), window.eq(window + 1), beats.eq(beats + beat)]
        with m.If(window == self.rate_window - 1):
            m.d.sync += [steps.eq(Cat(beats >= step * sixteenth for step in RATE_STEPS)), beats.eq(0)]
        m.d.comb += self.leds.eq(Cat(self._heart, self._running, self._passed, self._failed, steps))

    # The serial line.

    def _console(self, m: Module, counts: dict[str, Value]) -> None:
        m.submodules.receiver = receiver = UARTReceiver(self.divisor)
        m.submodules.transmitter = transmitter = UARTTransmitter(self.divisor)
        m.submodules.parser = parser = CommandParser()
        m.submodules.echo = echo = PushQueue(8, 16, slack=0)
        memory, addresses = assemble(MESSAGES, VALUES)
        m.submodules.printer = printer = Printer(memory, len(VALUES))
        pending = {name: Signal(name=f"pending_{name}", init=name == "help") for name in MESSAGES}
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            echo.i.valid.eq(receiver.o.valid & echo.room),
            echo.i.payload.eq(receiver.o.payload),
        ]
        wiring.connect(m, receiver.o, parser.characters)

        # A report's verdict ends its line; otherwise the echo precedes messages.
        verdict = Cat(pending[name] for name in VERDICTS).any()
        with m.If(printer.busy):
            wiring.connect(m, printer.characters, transmitter.i)
        with m.Elif(echo.o.valid & ~verdict):
            wiring.connect(m, echo.o, transmitter.i)
        with m.Else():
            earlier: Value = Const(0, 1)
            for name, signal in pending.items():
                with m.If(~earlier & signal):
                    m.d.comb += [printer.start.eq(1), printer.address.eq(addresses[name])]
                    m.d.sync += signal.eq(0)
                    if name == "report":  # all numbers of the line are of one moment
                        m.d.sync += [printer.values[i].eq(counts[value]) for i, value in enumerate(VALUES)]
                        m.d.sync += [
                            pending["fail"].eq(self._failed),
                            pending["pass"].eq(~self._failed & self._passed),
                            pending["idle"].eq(~self._failed & ~self._passed),
                        ]
                earlier = earlier | signal
        # The rates of the second that ends are there a little later.
        with m.If(delayed(m, self._tick & self._running, 4, name="tick", reset=True)):
            m.d.sync += pending["report"].eq(1)
        self._execute(m, parser, pending)

    def _execute(self, m: Module, parser: CommandParser, pending: dict[str, Signal]) -> None:
        """Execute a line and select its answer."""
        m.d.sync += [self._clear.eq(0), self._inject.eq(0)]

        def start() -> None:
            m.d.sync += [self._restart.eq(1), self._running.eq(1), pending["ok"].eq(1)]

        def setting(signal: Signal, allowed: range) -> None:
            number = parser.number
            with m.If(parser.has_number & (number >= allowed.start) & (number < allowed.stop)):
                m.d.sync += signal.eq(number)
                start()
            with m.Else():
                m.d.sync += pending["range"].eq(1)

        with m.If(parser.done), m.Switch(parser.letter):
            with m.Case(ord("g")):
                start()
            with m.Case(ord("s")):
                m.d.sync += [self._running.eq(0), pending["ok"].eq(1)]
            with m.Case(ord("p")):
                setting(self._pattern, range(len(PATTERNS)))
            with m.Case(ord("b")):
                setting(self._k, BOUNDS)
            with m.Case(ord("i")):
                with m.If(parser.has_number & (parser.number < len(Fault))):
                    m.d.sync += [self._fault.eq(parser.number), self._inject.eq(1), pending["ok"].eq(1)]
                with m.Else():
                    m.d.sync += pending["range"].eq(1)
            with m.Case(ord("c")):
                m.d.sync += [self._clear.eq(1), pending["ok"].eq(1)]
            with m.Case(ord("r")):
                m.d.sync += pending["report"].eq(1)
            with m.Case(ord("h")):
                m.d.sync += pending["help"].eq(1)
            with m.Default():
                m.d.sync += pending["unknown"].eq(1)
