# SPDX-License-Identifier: BSD-2-Clause
"""The in-process simulation itself: what it reports, and that it sees every broken rule."""

import random
import time
from pathlib import Path
from types import ModuleType

import pytest
from refusals import refused

from inceptionn.sim.models.in_process import Interface, Pipe, build_model
from inceptionn.sim.models.waves import fst_available
from inceptionn.sim.verilated import (
    BusError,
    HangError,
    Packet,
    Pause,
    ProtocolError,
    ToolError,
    ToolMissing,
    VerilatedModule,
    VerilatedNic,
)


def random_frames(seed: int, count: int) -> list[Packet]:
    source = random.Random(seed)
    return [(source.randbytes(source.randint(1, 300)), source.getrandbits(1)) for _ in range(count)]


@pytest.mark.parametrize("idle", [Pause(), Pause(0.5), Pause(0.1, 40)])
@pytest.mark.parametrize("back_pressure", [Pause(), Pause(0.5), Pause(0.02, 200)])
def test_frames_and_flags_pass_in_order(pass_nic: VerilatedNic, idle: Pause, back_pressure: Pause) -> None:
    sent = random_frames(1, 200), random_frames(2, 150)
    came = pass_nic.exchange(*sent, idle=idle, back_pressure=back_pressure)
    for inputs, outputs in zip(sent, came, strict=True):
        assert [(output.data, output.bad) for output in outputs] == inputs
        for output in outputs:
            timing = output.timing
            assert timing.first_in <= timing.last_in < timing.last_out
            assert timing.first_in < timing.first_out <= timing.last_out


def test_each_engine_alone_and_every_length(pass_nic: VerilatedNic) -> None:
    frames = [bytes(range(length % 256)) * 1 or b"\xff" for length in range(1, 130)]
    assert [output.data for output in pass_nic.transmit(frames)] == frames
    assert [output.data for output in pass_nic.receive(frames)] == frames
    assert pass_nic.transmit([]) == []


def test_timing_of_an_idle_module(pass_nic: VerilatedNic) -> None:
    """The pass-through has a latency of one cycle, and moves a beat in every cycle."""
    (output,) = pass_nic.transmit([bytes(96)])
    first = output.timing.first_in
    assert output.timing == (first, first + 2, first + 1, first + 3)
    outputs = pass_nic.receive([bytes(64)] * 100)
    assert outputs[-1].timing.last_out - outputs[0].timing.first_out == 2 * 100 - 1


def test_loopback(pass_nic: VerilatedNic) -> None:
    frames = random_frames(3, 100)
    wire, restored = pass_nic.loopback(frames, back_pressure=Pause(0.3, 5))
    assert [(output.data, output.bad) for output in wire] == frames
    assert [(output.data, output.bad) for output in restored] == frames
    assert all(w.timing.last_out < r.timing.last_in for w, r in zip(wire, restored, strict=True))
    with pytest.raises(ValueError, match="loopback takes packets of the first pipe alone"):
        pass_nic.run(frames, frames, loopback=True)


def test_equal_seeds_give_equal_runs(passthrough_verilog: Path) -> None:
    runs = []
    for seed in (1, 1, 2):
        with VerilatedNic(passthrough_verilog, seed=seed) as nic:
            runs.append(nic.transmit(random_frames(4, 50), idle=Pause(0.3), back_pressure=Pause(0.3)))
    assert runs[0] == runs[1] != runs[2]


def test_registers(pass_nic: VerilatedNic, passthrough: ModuleType) -> None:
    pass_nic.write(passthrough.SCRATCH, 0xA5)
    assert pass_nic.read(passthrough.SCRATCH) == 0xA5
    pass_nic.write(passthrough.SCRATCH, 0, strobes=0b1110)
    assert pass_nic.read(passthrough.SCRATCH) == 0xA5
    refused(BusError, "SLVERR for the read of 0x020", pass_nic.read, 0x20)
    refused(BusError, "SLVERR for the write to 0x020", pass_nic.write, 0x20, 1)
    refused(ValueError, "multiple of 4, not 3", pass_nic.read, 3)
    pass_nic.reset()
    assert pass_nic.read(passthrough.SCRATCH) == 0


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        ("drops valid", ProtocolError, "m_axis_tx, cycle [0-9]+: TVALID fell before TREADY rose"),
        ("changes payload", ProtocolError, "the payload changed while TVALID waited for TREADY"),
        ("gap in keep", ProtocolError, "TKEEP is not a run of ones from bit 0"),
        ("short beat", ProtocolError, "TKEEP is not all ones before TLAST"),
        ("hangs", HangError, "no beat moved for [0-9]+ cycles until cycle [0-9]+; 0 of 20 frames left"),
        ("swallows frames", HangError, "0 of 20 frames left m_axis_tx; 0 of 0 frames"),
        (
            "invents frames",
            ProtocolError,
            "m_axis_[tr]x, cycle [0-9]+: a frame ended whose last beat has not been accepted",
        ),
    ],
)
def test_broken_rules_are_seen(
    pass_nic: VerilatedNic, passthrough: ModuleType, fault: str, error: type[Exception], text: str
) -> None:
    frames: list[Packet] = [random.Random(5).randbytes(150)] * 20
    pass_nic.write(passthrough.SCRATCH, passthrough.FAULTS[fault])
    refused(error, text, pass_nic.transmit, frames, back_pressure=Pause(0.3))
    pass_nic.reset()
    assert [output.data for output in pass_nic.transmit(frames)] == frames


def test_cycle_limit(pass_nic: VerilatedNic) -> None:
    with pytest.raises(HangError, match="cycle limit of 500 reached; [0-9]+ of 100 frames left m_axis_tx"):
        pass_nic.transmit([bytes(320)] * 100, cycle_limit=500)
    pass_nic.reset()
    assert len(pass_nic.transmit([bytes(320)] * 100)) == 100


def test_wrong_use_is_refused(pass_nic: VerilatedNic) -> None:
    refused(ValueError, "at least one byte: number 1", pass_nic.transmit, [b"x", b""])
    refused(ValueError, "needs 2 lists of packets, not 1", pass_nic.run, [])
    refused(ValueError, "not 'cfg_b'", pass_nic.set, cfg_b=1)
    refused(ValueError, "0..0.99, not 1.5", Pause, 1.5)
    pass_nic.close()
    refused(ValueError, "inceptionn_nic is closed", pass_nic.transmit, [b"x"])


def test_progress_adds_up(pass_nic: VerilatedNic) -> None:
    told: list[int] = []
    pass_nic.transmit([bytes(3200)] * 500, progress=told.append)
    assert sum(told) == 500
    assert len(told) > 1


@pytest.mark.slow
def test_waves(passthrough_verilog: Path, tmp_path: Path) -> None:
    path = tmp_path / "nic.vcd"
    with VerilatedNic(passthrough_verilog, waves=path) as nic:
        nic.transmit([bytes(64)])
    text = path.read_text()
    assert "m_axis_tx_tdata" in text
    assert text.count("\n#") > 100


@pytest.mark.slow
def test_fst_waves(passthrough_verilog: Path, tmp_path: Path) -> None:
    path = tmp_path / "nic.fst"
    if not fst_available():
        with pytest.raises(ToolMissing, match="needs the headers of zlib and lz4"):
            VerilatedNic(passthrough_verilog, waves=path)
        return
    with VerilatedNic(passthrough_verilog, waves=path) as nic:
        nic.transmit([bytes(64)])
    data = path.read_bytes()
    assert data[:9] == bytes([0]) + (329).to_bytes(8, "big"), "no FST header block"
    assert len(data) > 500


def test_a_module_with_plain_inputs_and_wide_user(tmp_path: Path) -> None:
    """Any module with an `Interface` can be driven; here `tuser` of the first beat decides what comes out."""
    verilog = tmp_path / "first.v"
    verilog.write_text(
        """module first(input aclk, input aresetn, input [7:0] cfg_b,
          input [255:0] s_axis_tdata, input [31:0] s_axis_tkeep, input [15:0] s_axis_tuser,
          input s_axis_tlast, input s_axis_tvalid, output s_axis_tready,
          output [255:0] m_axis_tdata, output [31:0] m_axis_tkeep, output m_axis_tuser,
          output m_axis_tlast, output m_axis_tvalid, input m_axis_tready);
          reg started; reg [15:0] user;
          wire [15:0] now = started ? user : s_axis_tuser;
          always @(posedge aclk)
            if (!aresetn) started <= 0;
            else if (s_axis_tvalid && m_axis_tready) begin started <= !s_axis_tlast; user <= now; end
          assign s_axis_tready = m_axis_tready, m_axis_tvalid = s_axis_tvalid && aresetn;
          assign m_axis_tdata = s_axis_tdata ^ {32{cfg_b}}, m_axis_tkeep = s_axis_tkeep;
          assign m_axis_tlast = s_axis_tlast, m_axis_tuser = now == 16'h1234;
        endmodule"""
    )
    interface = Interface((Pipe("s_axis", "m_axis", "kFirst"),), ("cfg_b",))
    with VerilatedModule(verilog, "first", interface=interface) as module:
        module.set(cfg_b=0xF0)
        outputs = module.process([(bytes(100), 0x1234), (bytes(100), 0x1235), (bytes(5), 0x1234)])
    assert [output.data for output in outputs] == [b"\xf0" * 100, b"\xf0" * 100, b"\xf0" * 5]
    assert [output.bad for output in outputs] == [True, False, True]
    refused(ValueError, "interface must be given .* 'first'", build_model, verilog, "first")


def test_models_are_cached_and_tools_are_named(
    passthrough_verilog: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = build_model(passthrough_verilog, "inceptionn_nic")
    stamp = first.stat().st_mtime_ns
    assert build_model(passthrough_verilog, "inceptionn_nic") == first
    assert first.stat().st_mtime_ns == stamp
    copy = tmp_path / "copy.v"
    copy.write_text(passthrough_verilog.read_text())
    assert build_model(copy, "inceptionn_nic") == first
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build_model(passthrough_verilog, "inceptionn_nic") == first, "a built model needs no compiler"
    changed = tmp_path / "changed.v"
    changed.write_text(f"// Not built yet: {time.time_ns()}\n{passthrough_verilog.read_text()}")
    with pytest.raises(ToolMissing, match="no-such-compiler not found: install a C\\+\\+17 compiler"):
        build_model(changed, "inceptionn_nic")
    monkeypatch.delenv("CXX")
    broken = tmp_path / "broken.v"
    broken.write_text("module inceptionn_nic(input aclk; endmodule\n")
    with pytest.raises(ToolError, match=r"^verilator_bin failed with status 1: %Error: .*syntax error"):
        build_model(broken, "inceptionn_nic")
    refused(FileNotFoundError, "missing.v", build_model, tmp_path / "missing.v", "inceptionn_nic")


def test_speed(pass_nic: VerilatedNic) -> None:
    """The harness itself is no bottleneck: well over 300 thousand cycles per second of processor time."""
    begin, cycle = time.process_time(), pass_nic.cycle
    pass_nic.exchange([bytes(1504)] * 4000, [bytes(1504)] * 4000)
    rate = (pass_nic.cycle - cycle) / (time.process_time() - begin)
    assert rate > 300_000
