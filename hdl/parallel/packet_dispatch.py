# SPDX-License-Identifier: BSD-2-Clause
"""From one wide stream to several engines: complete frames, each to the least loaded engine."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..control.config import EngineConfig
from ..frame.frame_input import FrameInput
from ..parts.axi import AXIStream
from ..parts.queue import PushQueue
from ..parts.width import BURST, Width
from .dispatch_queue import DispatchQueue, check_engines, word_layout
from .flow_sharing import HEADER_BYTES, FlowSharing

MOST_FRAMES = 64
"""Frames that one engine may have between dispatch and collection; also the depth of queues of frames."""


def dispatched(engines: int) -> data.StructLayout:
    """Return the layout of one frame's route, announced when its first word enters a queue."""
    return data.StructLayout(
        {
            "owner": range(engines),  # the engine whose frame is kept
            "targets": engines,  # the engines that get the frame: the owner alone, or all
        }
    )


def least(levels: list[Value], index: int = 0) -> tuple[Value, Value]:
    """Return the smallest level and its number, by a binary tree; the first of equal ones."""
    if len(levels) == 1:
        return levels[0], Value.cast(index)
    half = len(levels) // 2
    (low, low_at), (high, high_at) = least(levels[:half], index), least(levels[half:], index + half)
    return Mux(high < low, high, low), Mux(high < low, high_at, low_at)


class PacketDispatch(wiring.Component):
    """Distributes the frames of a stream that is ``engines`` bursts wide to that many engines.

    A frame goes, whole and in the order of its arrival, into the queue of the engine with the fewest words
    waiting. With ``flows``, a frame that may change the engines' flow tables goes into all queues
    (:class:`FlowSharing`). The settings are sampled once per frame, as an engine samples them, and go to
    the engine with it. So after a change every frame has the new settings, whichever engine it goes to.

    Throughput: one word per cycle and one frame per cycle. Latency of an empty dispatcher, word in to burst
    out: 11 cycles, with ``flows`` 14.

    Parameters
    ----------
    engines : :class:`int`
        Number of engines and bursts in a word, 2 or 4.
    flows : :class:`bool`
        Whether the engines have flow tables.
    width : :class:`Width`
        Of an engine.
    """

    def __init__(self, engines: int, width: Width = BURST, *, flows: bool):
        check_engines(engines)
        burst = width.bytes
        self.engines = engines
        self.flows = flows
        self.width = width
        super().__init__(
            {
                "s_axis": In(AXIStream(engines * burst)),  #: Frames.
                #: Sampled once for a frame, in the cycle after its first beat was accepted.
                "config": In(EngineConfig),
                **({"bf16_tos": In(8)} if width.bf16 else {}),  #: With ``width.bf16``: likewise.
                "m_axis": Out(AXIStream(burst)).array(engines),  #: To the engines.
                #: To the engines. A frame's settings show from the cycle after its first beat was accepted to
                #: the next frame's.
                "engine_config": Out(EngineConfig).array(engines),
                #: With ``width.bf16``: likewise.
                **({"engine_bf16_tos": Out(8).array(engines)} if width.bf16 else {}),
                #: One per frame: its route.
                "frames": Out(stream.Signature(dispatched(engines), always_ready=True)),
                #: Number of an engine's frames that left :class:`PacketCollect` in this cycle.
                "collected": In(range(3)).array(engines),
                #: Number of an engine's frames that have been reported in this cycle.
                "reported": In(range(3)).array(engines),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.input = source = FrameInput(data_bytes=self.engines * self.width.bytes)
        word_shape = word_layout(self.engines, self.width)
        m.submodules.words = words = PushQueue(word_shape, 32, 4)
        given: Any = Cat(self.config, self.bf16_tos) if self.width.bf16 else self.config
        self._settings = given.shape()
        m.submodules.configs = configs = PushQueue(self._settings, 32, 4)
        wiring.connect(m, wiring.flipped(self.s_axis), source.s_axis)
        beat = source.beats.payload
        begins = beat.first
        m.d.comb += [
            words.i.valid.eq(source.beats.valid),
            words.i.payload.data.eq(beat.data),
            words.i.payload.count.eq(beat.count),
            words.i.payload.last.eq(beat.last),
            words.i.payload.bad.eq(beat.bad),
            configs.i.valid.eq(begins),
            configs.i.payload.eq(given),
        ]
        told = self._sharing(m, source, words.room & configs.room)

        # `told` is one bit per frame: all engines must see it. A frame begins when its first word, this bit
        # and room at its engine are there; `within` then leads its other words the same way.
        queues = [DispatchQueue(self.engines, self.width) for _ in range(self.engines)]
        word = words.o.payload
        within = Signal()
        targets = Signal(self.engines)
        ready = Signal(self.engines)
        best = Signal(range(self.engines))
        best_ready = Signal()
        chosen = Signal(self.engines)
        start = Signal()
        go = Signal()
        room = Cat(queue.room for queue in queues)
        everyone = (1 << self.engines) - 1
        m.d.comb += [
            start.eq(
                words.o.valid & ~within & told.valid & configs.o.valid
                & Mux(told.payload, ready.all(), best_ready)
            ),
            chosen.eq(Mux(within, targets, Mux(told.payload, everyone, 1 << best))),
            go.eq(start | (words.o.valid & within & ((room | ~targets) == everyone))),
            words.o.ready.eq(go),
            configs.o.ready.eq(start),
            told.ready.eq(start),
        ]  # fmt: skip
        frame = self.frames.payload
        with m.If(go):
            m.d.sync += [within.eq(~word.last), targets.eq(chosen)]
        m.d.sync += [
            self.frames.valid.eq(start),
            frame.owner.eq(best),
            frame.targets.eq(chosen),
        ]

        # One row of flip-flops between the choice and the block RAMs of all queues.
        moved = Signal(word_shape, reset_less=True)
        settings = Signal(self._settings, reset_less=True)
        m.d.sync += [moved.eq(word), settings.eq(configs.o.payload)]
        levels = []
        for i, queue in enumerate(queues):
            m.submodules[f"queue{i}"] = queue
            push = Signal(name=f"push{i}")
            m.d.sync += push.eq(go & chosen[i])
            m.d.comb += [queue.words.valid.eq(push), queue.words.payload.eq(moved)]
            free = self._credit(m, i, start & chosen[i])
            m.d.sync += ready[i].eq(queue.room & free)
            level = Signal(range(queue.DEPTH + 1), name=f"level{i}")
            m.d.sync += level.eq(level + (go & chosen[i]) - queue.popped)
            levels.append(Cat(level, ~(queue.room & free)))
            self._attach(m, i, queue, self.frames.valid & frame.targets[i], settings)
        smallest, number = least(levels)
        m.d.sync += [best.eq(number), best_ready.eq(~smallest[-1])]
        return m

    def _sharing(self, m: Module, source: FrameInput, room: Value) -> Any:
        """Return a stream of one bit per frame, in order: all engines must see it. Zero without ``flows``."""
        beat = source.beats.payload
        told = stream.Signature(1).create(path=("told",))
        if self.flows:
            m.submodules.sharing = sharing = FlowSharing(bf16=self.width.bf16)
            m.submodules.told = queue = PushQueue(1, 32, 4 + FlowSharing.LATENCY)
            wiring.connect(m, sharing.shared, queue.i)
            wiring.connect(m, queue.o, wiring.flipped(told))
            m.d.comb += [
                sharing.frames.valid.eq(beat.first),
                sharing.frames.payload.header.eq(beat.data[: 8 * HEADER_BYTES]),
                sharing.frames.payload.config.eq(self.config),
                source.room.eq(room & queue.room),
                *([sharing.bf16_tos.eq(self.bf16_tos)] if self.width.bf16 else []),
            ]
        else:
            m.d.comb += [told.valid.eq(1), source.room.eq(room)]
        return told

    def _credit(self, m: Module, i: int, begins: Value) -> Signal:
        """Tell whether engine ``i`` may have another frame; two more may follow after it falls."""
        waiting = []
        for name, done in (("collected", self.collected[i]), ("reported", self.reported[i])):
            frames = Signal(range(MOST_FRAMES + 1), name=f"not_{name}{i}")
            m.d.sync += frames.eq(frames + begins - done)
            waiting.append(frames < MOST_FRAMES - 4)
        free = Signal(name=f"free{i}")
        m.d.sync += free.eq(waiting[0] & waiting[1])
        return free

    def _attach(self, m: Module, i: int, queue: DispatchQueue, begins: Value, settings: Any) -> None:
        """Connect engine ``i``'s stream, and the settings that go with its frames."""
        stream = self.m_axis[i]
        wiring.connect(m, queue.m_axis, wiring.flipped(stream))
        m.submodules[f"configs{i}"] = configs = PushQueue(self._settings, MOST_FRAMES, 0)
        first = Signal(name=f"first{i}", init=1)
        current = Signal(self._settings, name=f"config{i}", reset_less=True)
        shown: Any = self.engine_config[i]
        if self.width.bf16:
            shown = Cat(shown, self.engine_bf16_tos[i])
        accept = Signal(name=f"accept{i}")
        m.d.comb += [
            accept.eq(stream.tvalid & stream.tready),
            configs.i.valid.eq(begins),
            configs.i.payload.eq(settings),
            configs.o.ready.eq(accept & first),
            shown.eq(current),
        ]
        with m.If(accept):
            m.d.sync += first.eq(stream.tlast)
        with m.If(configs.o.ready):
            m.d.sync += current.eq(configs.o.payload)
