# SPDX-License-Identifier: BSD-2-Clause
"""What commands say of wrong words: one line, exit status 2, no output, and no file."""

import shlex
from pathlib import Path

import pytest

from inceptionn import cli

CAPTURE = Path(__file__).parents[2] / "examples" / "captures" / "digits.pcap"
BEFORE = {"generate": "--board generic --out out", "inline build": "--out out"}
"""What a command needs; words of the same option that follow replace it."""
AFTER = {"cluster run": "-- true"}
SAID = {
    "": {
        "generate": "Missing option '--board'",
        "transmogrify": "No such command 'transmogrify'",
        "inspct": "No such command 'inspct' (did you mean 'inspect'?); inceptionn --help lists them.",
        "gen": "No such command 'gen' (did you mean 'generate'?)",
        "--frobnicate": "No such option: --frobnicate",
        "--verson": "No such option: --verson (did you mean '--version'?)",
        "bench coffee": "No such command 'coffee'",
    },
    "bench a2dtwp": {"--size 0": "must be 1..4096, not 0"},
    "bench allreduce": {
        "--dtype fp8": "must be one of float32, bfloat16, not 'fp8'",
        "--dtype bfloat16 --op all-gather": "is measured with sum, mean, not 'all-gather'",
        "--dtype bfloat16 --only MPI": "no variant of ring bf16, ring bounded, ring planes contains",
        "--rates 1g,fast": "--rates: rate must be a number of bits per second",
        "--rates fast": "not 'fast' (or 'unshaped')",
        "--rates ,": "--rates takes one or more rates, not ','",
        "--hosts 1": "must be 2..16, not 1",
        "--op max": "--op takes sum, mean, reduce-scatter, all-gather, not 'max'",
        "--only tree": "contains 'tree'",
        "--plot x.bmp": "--plot must end in .png, .svg, .pdf, not 'x.bmp'",
    },
    "bench codec": {
        "--dtype bf16": "not 'bf16' (did you mean 'bfloat16'?)",
        "--data imaginary": "--data takes synthetic, real, not 'imaginary'",
        "--data ,": "--data takes one or more of synthetic, real, not ','",
        "--bound 15": "'--bound': must be 1..14, not 15",
        "--size 0": "'--size': must be 1..4096, not 0",
        "--plot x.txt": "--plot must end in .png, .svg, .pdf, not 'x.txt'",
        "--json - --csv -": "Invalid value: only one output can be -, standard output",
    },
    "bench gradiveq": {"--rates fast": "fast", "--repeats 0": "must be 1..1000, not 0"},
    "bench layers": {
        "--systems sgd": "--systems takes ssgd, ",
        "--rates fast": "--rates: rate must be",
        "--model rnn": "must be one of cnn, mlp, not 'rnn'",
        "--hosts 1": "must be 2..16, not 1",
    },
    "bench parallax": {
        "--hosts 1": "must be 2..16, not 1",
        "--rate fast": "fast",
        "--batch 2000 --hosts 16": "--batch times --hosts must be at most 16000, not 32000",
    },
    "bench pays": {
        "--hosts 1": "--hosts takes whole numbers of 2..16, not '1'",
        "--sizes x": "--sizes takes whole numbers of 1..1024, not 'x'",
        "--rates quick": "--rates: rate must be",
    },
    "bench slow-links": {
        "--systems h16": "a system is ddp or h and its steps",
        "--delays fast": "time must be",
        "--only speed": "--only takes losses, times, not 'speed'",
        "--text /nowhere": "no text at /nowhere: apt-get install dict-gcide, or --text FILE",
    },
    "bench torch": {
        "--models resnet": "--models takes mlp, cnn, transformer, not 'resnet'",
        "--systems magic": "--systems takes plain, fp16",
        "--hosts 1": "must be 2..16, not 1",
    },
    "bench trainings": {
        "--models rnn": "--models takes mlp, cnn, transformer, not 'rnn'",
        "--ranks 1,4": "--ranks takes",
        "--ranks four": "--ranks takes",
        "--bounds 15": "--bounds takes",
        "--bounds ''": "--bounds takes",
        "--dtype fp8": "must be one of float32, bfloat16, not 'fp8'",
    },
    "bring-up": {
        "--out ''": "Invalid value for --out: must name a folder, not ''",
        "--out x --clock 1000": "Invalid value for --clock: clock must be 10 to 400 MHz, not 1000.0",
        "": "Missing option '--out'",
    },
    "cluster bench": {
        "--nic fpga": "must be one of rtl, inline, golden, none, not 'fpga'",
        "--size 0": "size must be 1..10000 MB, not 0",
    },
    "cluster run": {
        "--codec plane": "not 'plane' (did you mean 'planes'?)",
        "--nic fpga": "--nic: NIC must be one of rtl, inline, golden, none, not 'fpga'",
        "--hosts 65": "--hosts: hosts must be 1..64, not 65",
        "--loss 2x": "loss: share must be",
        "--tos low": "--tos: ToS must be a number of 0..255 such as 0x28, not 'low'",
        "--mtu 100 --nic none": "must be 576..9216, not 100",
        "--vlan 5000 --nic none": "must be 1..4094, not 5000",
        "--bound 15": "--bound",
        "--mode exact": "--mode",
        "--codec zip": "--codec: codec must be one of paper, planes, planes-bf16, not 'zip'",
        "--codec paper,planes --bf16": "--bf16: needs --codec planes, not paper",
        "--codec planes --mode literal": "--mode: the codec planes has no modes, so not",
        "--at soon": "event must be SECONDS:HOST:REGISTER=VALUE, as in 2.5:1:CONTROL=0, not 'soon'",
        "--at 1:5:CONTROL=0": "host of an event must be 0..1, not 5",
        "--at 1:0:ID=0": "register must be one of CONTROL, COMMAND, TOS, PARAMETERS, PAYLOAD, not",
        "--nic none --at 1:0:CONTROL=0": "host0 has no NIC whose registers could be written",
        "--timeout 0": "--timeout",
        "--timeout -1": "--timeout",
        "--timeout nan": "--timeout",
    },
    "doctor": {"--json /dev/null/a/facts.json": "Not a directory: '/dev/null/a'"},
    "generate": {
        "--board x --out y": "of corundum, generic, litex, netfpga-sume, vc709, not 'x'",
        "--board vc790 --out x": "not 'vc790' (did you mean 'vc709'?)",
        "--board vc709 --codec planess --out x": "not 'planess' (did you mean 'planes'?)",
        "--board ecpix5 --out x": "(the inline device: inceptionn inline build --board ecpix5-85f)",
        "--board generic --out /dev/null/out": "Not a directory: '/dev/null/out'",
        "--out ''": "output folder must be named, not ''",
        "--board vc709 --out x --clock 200": "clock of vc709 is 250 MHz and cannot be chosen: 200",
        "--board generic --out x --clock 0": "clock must be 1 to 1000 MHz, not 0",
        "--board vc709 --ports 5": "ports of vc709 must be 1 to 4, not 5",
        "--board generic --ports 1": "ports cannot be chosen for generic: 1",
        "--board vc709 --clock-ratio 1": "clock ratio must be above 1, at most 4,",
        "--board vc709 --clock-ratio 7": "a multiple of 1/32, not '7'",
        "--board vc709 --clock-ratio 2.01": "not '201/100'",
        "--board vc709 --clock-ratio x": "a number such as 2, 2.5 or 5/2, not 'x'",
        "--board corundum --clock-ratio 2": "clock ratio cannot be chosen for corundum: '2'",
        "--board corundum --width 100": "must be 64, 128, 256, 512, not 100",
        "--board vc709 --width 512": "stream width of vc709 must be 256, not 512",
        "--engines 3": "engines must be one of 1, 2, 4, not 3",
        "--board vc709 --engines 2": "engines of vc709 must be at most 1",
        "--lanes 32": "lanes must be 1, 8 or 16, not 32",
        "--board generic --lanes 1 --engines 2": "engines of one lane must be 1, not 2",
        "--board vc709 --lanes 1": "lanes of vc709 must be at least 8",
        "--board vc709 --lanes 16": "lanes of vc709 must be 8, as its streams carry no more",
        "--board corundum --width 512 --lanes 8": "stream, not 8, which take half of its rate",
        "--board litex --lanes 16": "lanes of litex must be 1 or 8, as its streams carry",
        "--board litex --engines 2": "engines of litex must be at most 1, as its streams",
        "--board netfpga-sume --lanes 16": "lanes of netfpga-sume must be 8",
        "--part 'a b'": "part must be an ordering code, not 'a b'",
        "--out /dev/null/out": "Not a directory: '/dev/null/out'",
        "--out /dev/null": "Not a directory: '/dev/null'",
    },
    "inline build": {
        "--board arty": "must be one of ecpix5-85f, versa-ecp5-5g, colorlight-5a-75b-7.0,",
        "--board versa-ecp5-5g --lanes 8": "versa-ecp5-5g holds engines of 1 lane, not 8; ecpix5-85f holds 8",
        "--bf16": "--bf16: needs --codec planes, not paper",
        "--codec zip": "must be one of paper, planes, none, not 'zip'",
        "--seeds 0": "must be 1..100, not 0",
    },
    "pays": {
        "--model many": "--model takes bytes such as 98MB or 2.5GB, not 'many'",
        "--model 98": "--model takes bytes such as 98MB, at least 1kB; '98' is 98 bytes",
        "--deflated": "--deflated: needs --where software and no ratio of Table III",
        "--local-steps 4 --local-ratio 9x": "--local-ratio: takes a number, a .npy file,",
        "--local-bound 5": "--local-bound, --local-ratio: need --local-steps",
        "--step-time 5": "--step-time takes a time such as 150ms or 10us, not '5'",
        "--nodes 1": "nodes must be 2 to 1000000, not 1",
        "--bandwidth 0": "--bandwidth: rate must be",
        "--bandwidth 10": "--bandwidth: rate must be 8 kbit/s to 1 Tbit/s, not '10'; 10 Gbit/s is '10g'",
        "--bandwith 10g": "No such option: --bandwith (did you mean '--bandwidth'?)",
        "--band 10g": "No such option: --band (did you mean '--bandwidth'?)",
        "--bound 2^10": "'--bound': must be k of the bound 2^-k, such as 10 or 2^-10, not '2^10'",
        "--bound 2^-15": "'--bound': must be 1..14, not 15",
        "--nodes four": "'--nodes': must be a whole number, not 'four'",
        "--jitter much": "'--jitter': must be a number, not 'much'",
        "--topology star": "'--topology': must be one of ring,",
        "--where cloud": "'--where': must be one of software, nic, inline, not 'cloud'",
        "--gradients int8": "'--gradients': must be one of float32, bfloat16, not 'int8'",
        "--ratio none.npy": "--ratio: No such file or directory: 'none.npy'",
        "--ratio much": "--ratio: takes a number, a .npy file, or synthetic,",
        "--ratio vgg16 --bound 9": "not 'vgg16' at k = 9",
        "--ratio 0": "--ratio: must be 0.5 to 1000, not 0",
        "--overlap nan": "overlap must be 0 to 1, not nan",
        "--where software --codec-rate 0GB": "--codec-rate must be 1kB to 10TB",
        "--simulate --topology parameter-server": "the simulation knows ring and hierarchical",
        "--simulate --nodes 1000000": "a simulation takes at most 5e+09 steps of all hosts",
        "--codec planes --ratio alexnet": "is of the paper's codec, not of --codec planes",
        "--scale auto --ratio alexnet": "is of values that are not scaled",
        "--scale 127": "--scale takes auto, none or -126..126, not '127'",
        "--scale much": "--scale takes auto, none or -126..126, not 'much'",
    },
    "latency": {
        "--engines 3": "engines must be one of 1, 2, 4, not 3",
        "--lanes 12": "lanes must be 1, 8 or 16, not 12",
        "--clock 0": "'--clock': must be 1..2000 MHz, not 0.0",
    },
    "replay": {
        "CAPTURE --bound 15": "'--bound': must be 1..14, not 15",
        "CAPTURE --mode loose": "'--mode': must be one of literal, bounded, not 'loose'",
        "CAPTURE --waves waves.txt": "wave file must end in .vcd or .fst, not '.txt'",
        "CAPTURE --json .": "--json",
        "nothing.pcap": "no such capture: 'nothing.pcap'",
        "CAPTURE --json /dev/null/a/out.json": "Not a directory: '/dev/null/a'",
        "CAPTURE --waves /dev/null/a/w.vcd": "Not a directory: '/dev/null/a'",
        "CAPTURE --verilog no.v": "inceptionn generate writes it",
    },
    "report": {
        "--board kc705": "'--board': must be one of vc709, netfpga-sume, not 'kc705'",
        "rocket": "COMPONENTS: component must be one of nic, ",
        "rockets": "not 'rockets'",
        "--plot x.gif": "--plot must end in .png, .svg, .pdf, not 'x.gif'",
        "--threshold -1": "--threshold: percentage must be 0 to 1000, not -1.0",
    },
    "reproduce": {
        "all --only fig99": "--only takes fig4, ",
        "all --only fig-15": "not 'fig-15' (did you mean 'fig15'?)",
        "fig4 --seed -1": "must be 0..4294967295, not -1",
        "fig6": "No such command 'fig6'",
        "fig99": "No such command 'fig99' (did you mean 'fig7'?); inceptionn reproduce --help lists them.",
        "fig4 --with examples.own_codec:Half": "No such option: --with",
    },
    "scale": {
        "--engines 3": "engines must be one of 1, 2, 4, not 3",
        "--lanes 12": "lanes must be 1, 8 or 16, not 12",
        "--clock 0": "'--clock': must be 1..2000 MHz, not 0.0",
    },
    "simulate": {
        "": "name a module; --list prints them",
        "nothing": "module must be one of ",
        "tag_decodr": "module must be one that --list prints, not 'tag_decodr' (did you mean 'tag_decoder'?)",
        "block_stor": "not 'block_stor' (did you mean 'block_store'?)",
        "registers --simulator vcs": "'vcs'",
        "registers --waves waves.txt": "wave file must end in .vcd or .fst, not '.txt'",
        "report_merge": "module must be one that --list prints, not 'report_merge'",
    },
    "timing": {
        "--seed one": "--seed",
        "nowhere:Nothing": "no component 'nowhere:Nothing'",
        "no_such_top": "component must be one of compressor, decompressor, nic",
        "rocket": "component must be one of compressor, decompressor, nic, a part",
        "queue/99": "with /N its N-th size) or package.module:Factory, not 'queue/99'",
        "nic --placer sa": "must be one of heap, static, not 'sa'",
    },
}
"""By command, the words and a part of what it says of them."""


@pytest.mark.parametrize(
    ("command", "words"), [(command, word) for command in SAID for word in SAID[command]]
)
def test_usage_error(
    command: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    line = f"{command} {BEFORE.get(command, '')} {words} {AFTER.get(command, '')}"
    assert cli.main(shlex.split(line.replace("CAPTURE", str(CAPTURE)))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("inceptionn: ")
    assert captured.err.count("\n") == 1
    assert SAID[command][words] in captured.err
    assert not list(tmp_path.iterdir())
