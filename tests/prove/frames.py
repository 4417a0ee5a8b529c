# SPDX-License-Identifier: BSD-2-Clause
"""The queue of whole frames: each beat carries its frame's number and its own, so any mistake shows."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal
from harness import Fault, Harness, Proof

from inceptionn.hdl.attach.frame_queue import FrameQueue

DEPTH = 8


def frame_queue(lossy: bool, h: Harness) -> None:
    """Make claims about a small queue. ``lossy`` also drops bad frames."""
    dut = FrameQueue(2, depth=DEPTH, frames=8, word_width=4, drop_bad=lossy, lossy=lossy)
    h.add(dut)
    m, source, sink = h.m, dut.s_axis, dut.m_axis
    for name, shape in (("tvalid", 1), ("tlast", 1), ("tuser", 1), ("tkeep", 2)):
        m.d.comb += getattr(source, name).eq(h.anything(shape, name))
    h.assume(
        "beats are full, but for the last of a frame, which has one byte or two",
        source.tkeep[0] & (source.tlast | source.tkeep[1]),
    )
    m.d.comb += sink.tready.eq(h.anything(1, "tready"))
    # What goes in: frame `number`, beat `index`.
    number, index = Signal(4), Signal(6)
    accept = source.tvalid & source.tready
    with m.If(accept):
        m.d.sync += [index.eq(Mux(source.tlast, 0, index + (index != 63))), number.eq(number + source.tlast)]
    h.assume("fewer than 16 frames, of fewer than 64 beats", (number != 15) & (index != 63))
    m.d.comb += [source.tdata.eq(Cat(index, C(0, 2), number)), dut.s_word.eq(number)]

    # The frame that is followed, any: length, mark, whether it was dropped, and how many before it were not.
    mine = h.any_constant(4, "mine")
    ended, of_mine, before_mine = Signal(), Signal(), Signal()
    length, bad, beats = Signal(8), Signal(), Signal(7)
    known, lost, survivors = Signal(), Signal(), Signal(4)
    m.d.sync += [
        ended.eq(accept & source.tlast), of_mine.eq(number == mine), before_mine.eq(number < mine),
        beats.eq(index + 1),
    ]  # fmt: skip
    with m.If(accept & source.tlast & (number == mine)):
        m.d.sync += [length.eq((index << 1) + 1 + source.tkeep[1]), bad.eq(source.tuser), known.eq(1)]
    with m.If(ended):
        m.d.sync += [
            lost.eq(lost | (of_mine & dut.dropped)),
            survivors.eq(survivors + (before_mine & ~dut.dropped)),
        ]
    h.claim("a frame is dropped at its end alone", ~dut.dropped | ended)
    if not lossy:
        h.claim(
            "a frame is dropped only if it has more beats than the queue holds",
            ~dut.dropped | (beats >= DEPTH),
        )
    was_bad = h.past(source.tuser)
    if lossy:
        h.claim("a bad frame is dropped", ~(ended & was_bad) | dut.dropped)
    h.claim("a frame that cannot be whole inside is dropped", ~(ended & (beats >= DEPTH)) | dut.dropped)

    # What comes out.
    took = sink.tvalid & sink.tready
    inside, place, came = Signal(), Signal(6), Signal(4)
    with m.If(took):
        m.d.sync += [
            inside.eq(~sink.tlast),
            place.eq(Mux(sink.tlast, 0, place + 1)),
            came.eq(came + sink.tlast),
        ]
    got, got_index = sink.tdata[8:12], sink.tdata[:6]
    h.claim("a frame that has begun comes without a gap", ~inside | sink.tvalid)
    h.claim("its beats come in order", ~sink.tvalid | (got_index == place))
    h.claim("its word and all its beats are of one frame", ~sink.tvalid | (dut.word == got))
    here = sink.tvalid & (got == mine)
    h.claim("a frame came in whole and was not dropped", ~here | (known & ~lost))
    h.claim("frames come in order, and all that were not dropped", ~here | (came == survivors))
    h.claim("its length is known from the first beat on", ~here | (dut.length == length))
    end = (length - 1) >> 1
    h.claim(
        "its last beat has its last bytes and its mark",
        ~here
        | (
            (sink.tlast == (got_index == end))
            & (sink.tkeep == Mux(sink.tlast & length[0], 1, 3))
            & (sink.tuser == (sink.tlast & bad))
        ),
    )
    waits, was = Signal(), Signal(17 + 4 + 16 + 2 + 2)
    payload = Cat(dut.length, dut.word, sink.tdata, sink.tkeep, sink.tuser, sink.tlast)
    m.d.sync += [waits.eq(sink.tvalid & ~sink.tready), was.eq(payload)]
    h.claim("what is offered stays until it is taken", ~waits | (sink.tvalid & (payload == was)))
    # A step later costs the lossy queue's proof four times as much.
    if lossy:
        h.cover("a frame of three beats", here & sink.tlast & (got_index == 2))
        h.cover("a frame of two beats after another", here & sink.tlast & (got_index == 1) & (came == 1))
    else:
        h.cover("a frame of three beats after another", here & sink.tlast & (got_index == 2) & (came == 1))
    h.cover("a dropped frame", dut.dropped)


_QUEUE = "attach.frame_queue"
PROOFS = tuple(
    Proof(f"frame_queue, {'lossy' if lossy else 'lossless'}", partial(frame_queue, lossy),
          11 if lossy else 12, (
        Fault(_QUEUE, "Mux(ending == 0, self.data_bytes, ending)", "ending"),
        *((Fault(_QUEUE, "m.If(skip | drop)", "m.If(skip)"),) if lossy else ()),
    ), bounded=True)
    for lossy in (False, True)
)  # fmt: skip
