# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn inline simulate``: two connected devices, in Verilog."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from inceptionn.commands.codec_option import Bf16Option
from inceptionn.commands.console import Console, JsonFile, Output, Table, new_progress
from inceptionn.commands.environment import environment
from inceptionn.system.options import one_of, whole
from inceptionn.wire import GROUP_LANES

from ..capture import read_pcap
from ..nic_codec import NIC_CODECS, NIC_VARIANTS
from ..nic_options import LanesOption, variants
from ..replay.replay import DEFAULT_CAPTURE, check_capture
from .pair import Pair
from .scenarios import LEAST_GAIN, SCALES, SEED, Gain, differences, gain


class InlineError(RuntimeError):
    """The devices differ from the golden model, lose a frame, or gain too little. The text says which."""


def simulate(
    pcap: Annotated[Path, typer.Argument(help="Capture of Ethernet frames.")] = DEFAULT_CAPTURE,
    codec: Annotated[
        str, one_of(NIC_VARIANTS, "Of {}, with commas.", "--codec", comma=True, metavar="LIST")
    ] = ",".join(NIC_CODECS),
    bf16: Bf16Option = False,
    lanes: LanesOption = GROUP_LANES,
    frames: Annotated[
        int | None,
        whole(1, 10**9, "The capture's first N frames; default: all.", "--frames", metavar="N"),
    ] = None,
    gradients: Annotated[
        int, whole(0, 10**6, "Frames of each measurement of the gain; 0: none.", "--gradients", metavar="N")
    ] = 100,
    json_file: JsonFile = None,
) -> None:
    """Drive a capture through two inline devices, check every byte, and measure the gain.

    Hosts run at 1000 Mbit/s on RGMII, the cable between the devices at 100 Mbit/s on RMII. Wire and host
    bytes are compared with the golden model. Counters are read over the devices' serial lines. Takes about
    five minutes of processor time, most of it to compile the models.
    """
    codecs = variants([word.strip() for word in codec.split(",")], bf16)
    if gradients and gradients < 10:
        raise typer.BadParameter(f"must be 0 or at least 10, not {gradients}", param_hint="--gradients")
    check_capture(pcap)
    out, sent = Output(json_file), read_pcap(pcap)[:frames]
    facts: dict[str, Any] = {"capture": str(pcap), "frames": len(sent), "codecs": {}}
    facts["environment"] = environment(SEED if gradients else None)
    gains: list[Gain] = []
    traffic = Table(
        f"{pcap.name} between two devices", "codec", "frames", "bytes sent", "on the wire", "ratio"
    )
    with new_progress(Console(stderr=True)) as bar:
        for name in codecs:
            facts["codecs"][name], gained = _measured(name, lanes, sent, gradients, bar)
            gains += gained
            given, wire = facts["codecs"][name]["bytes"], facts["codecs"][name]["wire"]
            traffic.add_row(name, f"{len(sent):,}", f"{given:,}", f"{wire:,}", f"{given / wire:.2f}")
    out.console.print(traffic)
    out.console.print("wire and hosts equal the golden model; the counters of both devices agree")
    if gains:
        out.console.print(_gain_table(gains))
    facts["gains"] = [{**asdict(each), "gain": each.gain} for each in gains]
    out.write(facts)
    if low := [each for each in gains if each.gain < LEAST_GAIN]:
        raise InlineError(
            f"gain of {low[0].codec} at {low[0].scale:g} is {low[0].gain:.2f}, less than {LEAST_GAIN:g}"
        )


def _measured(
    name: str, lanes: int, sent: list[bytes], gradients: int, bar: Progress
) -> tuple[dict[str, Any], list[Gain]]:
    """Drive frames through two devices of a codec and check them; return facts and gains.

    Raises `InlineError` at a difference.
    """
    task = bar.add_task(f"{name}: preparing", total=None)

    def advance(count: int) -> None:
        bar.advance(task, count)

    gains = []
    with Pair(name, lanes=lanes, step=lambda text: bar.update(task, description=f"{name}: {text}")) as pair:
        begin = time.process_time()
        bar.update(task, description=f"{name}: capture", total=len(sent), completed=0)
        pair.run(sent, progress=advance)
        if wrong := differences(sent, pair, NIC_VARIANTS[name].config()) + pair.counter_mismatches():
            raise InlineError(f"{name}: {len(wrong)} differences, the first: {wrong[0]}")
        wire = sum(len(frame.data) for frame in pair.sides[0].wire)
        for scale in SCALES if gradients else ():
            bar.update(task, description=f"{name}: gradients", total=2 * gradients, completed=0)
            gains.append(gain(pair, scale, gradients, advance))
        if wrong := pair.counter_mismatches():
            raise InlineError(f"{name}: after the gradients, {wrong[0]}")
        facts = {
            "bytes": sum(map(len, sent)), "wire": wire, "differences": 0,
            "seconds": time.process_time() - begin,
            "counters": [side.model.counters() for side in pair.sides],
        }  # fmt: skip
    bar.remove_task(task)
    return facts, gains


def _gain_table(gains: list[Gain]) -> Table:
    made = Table(
        "hosts at 1000, cable at 100 Mbit/s: Mbit/s of frames at the far host, bound 2^-10",
        "codec", "Laplace scale", "untagged", "tagged", "gain", left=2,
    )  # fmt: skip
    for each in gains:
        made.add_row(
            each.codec, f"{each.scale:g}", f"{each.untagged:.0f}", f"{each.tagged:.0f}", f"{each.gain:.2f}"
        )
    return made
