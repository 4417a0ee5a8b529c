# SPDX-License-Identifier: BSD-2-Clause
"""Writes the conformance vectors that ``tests/vectors/README.md`` describes.

``python -m inceptionn.sim.golden.vectors DIR``. The files depend on nothing but the model: the same
bytes come out on every machine, and a test compares them with those in the repository.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from inceptionn import wire
from inceptionn.wire import Parameters, Tag, Verdict

from . import cases, codec, planes_vectors, values
from .cases import paper
from .flows import FlowTable
from .frame import EngineConfig, Result, receive, transmit

SPECIAL_EXPONENTS = (0, 1, 2, 7, 8, 63, 64, 100, 200, 254, 255)
RAW_PARAMETERS = tuple(
    Parameters(*numbers)
    for numbers in (
        (1, 1, 1), (1, 1, 255), (1, 127, 127), (1, 127, 255), (100, 110, 120), (117, 117, 117),
        (127, 127, 127), (127, 127, 255),
    )
)  # fmt: skip
"""Valid, but of neither mode: both ends of every range, and shifts that leave nothing."""
DECODER_BASES = (0, 1, 2, 7, 8, 119, 122, 127, 254, 255)


def _settings() -> Iterable[tuple[dict[str, Any], Parameters]]:
    for mode in wire.MODES:
        for k in range(wire.MIN_K, wire.MAX_K + 1):
            yield {"mode": mode, "k": k}, wire.parameters(k, mode)
    for params in RAW_PARAMETERS:
        yield {"mode": None, "k": None}, params


def lane_inputs() -> codec.Bits:
    """Return special values, and every sign and edge mantissa at every class edge of every bound."""
    numbers = [
        sign << 31 | exponent << 23 | mantissa
        for exponent in sorted({*range(111, 129), *SPECIAL_EXPONENTS})
        for mantissa in values.EDGE_MANTISSAS
        for sign in (0, 1)
    ]
    return np.array(list(dict.fromkeys([*values.SPECIAL, *numbers])), np.uint32)


def lanes() -> dict[str, Any]:
    """Make ``lanes.json``: the lane codec, both ways."""
    inputs = lane_inputs()
    sets = []
    for name, params in _settings():
        tags, vectors = codec.compress_lanes(inputs, params)
        back, _ = codec.decompress_lanes(tags, vectors, params.b)
        digits = " ".join(_digits(v, t) for v, t in zip(vectors.tolist(), tags.tolist(), strict=True))
        sets.append({
            **name, **asdict(params), "tags": "".join(map(str, tags.tolist())), "vectors": digits,
            "outputs": " ".join(f"{bits:08x}" for bits in back.tolist()),
        })  # fmt: skip
    decoder = []
    edges = {s << 15 | 1 << i | low for s in (0, 1) for i in range(15) for low in (0, (1 << i) - 1)}
    for tag, base, column in (
        *((Tag.BITS8, base, range(256)) for base in DECODER_BASES),
        (Tag.BITS16, 0, sorted(edges)),
        (Tag.BITS16, 255, (0x0000, 0x8000, 0x5555, 0xAAAA)),
    ):
        numbers = np.array(column, np.uint32)
        bits, impossible = codec.decompress_lanes(np.full(len(numbers), tag, np.uint8), numbers, base)
        outputs = ["-" if no else f"{value:08x}" for value, no in zip(bits.tolist(), impossible, strict=True)]
        digits = " ".join(_digits(v, tag) for v in numbers.tolist())
        decoder.append({"tag": int(tag), "b": base, "vectors": digits, "outputs": " ".join(outputs)})
    words = " ".join(f"{bits:08x}" for bits in inputs.tolist())
    return {"inputs": words, "compress": sets, "decompress": decoder}


def _digits(vector: int, tag: int) -> str:
    """Format the vector in hexadecimal, most significant digit first; a dot for the empty one."""
    return f"{vector:0{2 * wire.TAG_BYTES[tag]}x}" if tag else "."


def blocks() -> dict[str, Any]:
    """Make ``blocks.json``: blocks and streams of every payload kind, and malformed blocks."""
    good = []
    for kind in values.KINDS:
        for name, params in _settings():
            if name["k"] not in (1, 6, 10, None) or (kind != "edges" and name["k"] not in (10,)):
                continue
            for count in (1, 7, 8, 9, 63, 64) if kind == "edges" else (1, 16, 61):
                data = values.payload(kind, count)
                good.append(_block(name, params, kind, data))
    data = values.payload("gradients", wire.MAX_LANES)
    good.append(_block({"mode": "bounded", "k": 10}, wire.parameters(10, "bounded"), "gradients", data))

    malformed = []
    for case in paper.malformed().cases:
        if case.bad or case.verdict is not Verdict.MALFORMED:
            continue
        frame = case.frame
        size = int.from_bytes(frame[16:18], "big") - 48  # IPv4, TCP and shim
        block, count = frame[62 : 62 + size], int.from_bytes(frame[58:60], "big") // 4
        _, _, fault = codec.examine_block(block, count, frame[57], size)
        assert fault is not None
        if len(block) == size:
            row = {"name": case.name, "count": count, "b": frame[57], "block": block.hex()}
            malformed.append({**row, "offset": fault.offset, "group": fault.group})

    streams = []
    for count in (0, 1, 2048, 2049):
        x = np.frombuffer(values.payload("gradients", count), np.float32)
        for mode in wire.MODES:
            stream = codec.compress(x, 2.0**-10, mode)
            back = codec.decompress(stream, count, 2.0**-10, mode)
            streams.append(planes_vectors.row({"mode": mode, "k": 10}, x, stream=stream, output=back))
    return {"blocks": good, "malformed": malformed, "streams": streams}


def _block(name: dict[str, Any], params: Parameters, kind: str, data: bytes) -> dict[str, Any]:
    x = np.frombuffer(data, np.float32)
    block = codec.compress_block(x, params)
    back = codec.decompress_block(block, len(x), params.b)
    row = planes_vectors.row({**name, **asdict(params), "kind": kind}, x, block=block, output=back)
    return {**row, "histogram": codec.histogram(x, params=params).tolist()}


def frames(direction: str, codec_name: str) -> tuple[list[dict[str, Any]], list[bytes], list[bytes]]:
    """Make ``transmit.json`` or ``receive.json`` of a codec, and the frames of its two captures."""
    transmitting = direction == "transmit"
    sequences = (cases.transmit_sequences if transmitting else cases.receive_sequences)(codec_name)
    rows, arrived, left = [], [], []
    for sequence in sequences:
        config, flows = sequence.config, FlowTable()
        steps = []
        for case in sequence.cases:
            if transmitting:
                result = transmit(case.frame, config, flows, case.bad)
            else:
                result = receive(case.frame, config, case.bad)
            if result.verdict is not case.verdict:
                raise AssertionError(
                    f"{sequence.name}, {case.name}: {result.verdict!r}, not {case.verdict!r}"
                )
            arrived.append(case.frame)
            left.append(result.frame)
            steps.append(_step(case, result, len(arrived), config))
        registers = {name: getattr(config, name) for name in ("enable", "tos", "tos_mask")}
        registers |= asdict(config.parameters)
        registers |= {name: getattr(config, name) for name in ("min_payload", "max_payload", "learn_phases")}
        registers |= {} if config.bf16_tos is None else {"bf16_tos": config.bf16_tos}
        rows.append({"name": sequence.name, "config": registers, "frames": steps})
    return rows, arrived, left


def _step(case: cases.Case, result: Result, number: int, config: EngineConfig) -> dict[str, Any]:
    form = config.format
    return {
        "name": case.name,
        "number": number,
        "bad": case.bad,
        "verdict": result.verdict.name,
        "out_bad": result.bad,
        "unchanged": result.frame == case.frame,
        form.counted: list(result.counts) or [0] * len(form.spec.classes),
        "unspecified_from": result.unspecified_from,
    }


def _write_json(path: Path, content: Any) -> None:
    """Write one line per case, so that a change shows as one."""
    text = json.dumps(content, separators=(",", ":"), sort_keys=False)
    path.write_text(text.replace("},{", "},\n{").replace("[{", "[\n{") + "\n", encoding="ascii")


def _write_pcap(path: Path, packets: list[bytes]) -> None:
    """Write a capture (microseconds, Ethernet) with one frame per millisecond of 1970."""
    from scapy.utils import RawPcapWriter

    writer = RawPcapWriter(str(path), linktype=1, endianness="<", snaplen=65535)
    writer.write_header(None)
    for number, packet in enumerate(packets):
        writer.write_packet(packet, sec=number // 1000, usec=number % 1000 * 1000)
    writer.close()


def write(directory: Path) -> list[Path]:
    """Write every file into ``directory``, which is made if need be; their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    contents = {"lanes": lanes(), "blocks": blocks()}
    for name, kind in (("planes", wire.FP32_LANES), ("bf16", wire.BF16_LANES)):
        contents[f"{name}_lanes"] = planes_vectors.lanes(kind)
        contents[f"{name}_blocks"] = planes_vectors.blocks(kind)
    paths = [directory / f"{name}.json" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        _write_json(path, content)
    for name, direction in product((*cases.CODECS, "bf16"), ("transmit", "receive")):
        prefix = "" if name == wire.DEFAULT_CODEC else f"{name}_"
        rows, arrived, left = frames(direction, name)
        here = [directory / f"{prefix}{direction}{suffix}" for suffix in (".json", "_in.pcap", "_out.pcap")]
        _write_json(here[0], rows)
        _write_pcap(here[1], arrived)
        _write_pcap(here[2], left)
        paths += here
    return paths


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m inceptionn.sim.golden.vectors", description=__doc__.split("\n")[0]
    )
    parser.add_argument("directory", type=Path, help="where to write, for example tests/vectors")
    for path in write(parser.parse_args().directory):
        print(f"{path.stat().st_size:8} {path}")


if __name__ == "__main__":
    main()
