# SPDX-License-Identifier: BSD-2-Clause
"""The Wireshark dissector reads the conformance vectors as the receive engine does."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISSECTOR = ROOT / "examples" / "wireshark" / "inceptionn.lua"
VECTORS = ROOT / "tests" / "vectors"
UNSEEN = {"exponent 0", "exponent -6", "base 0, impossible", "impossible vector in the third group"}
"""Malformed for their vectors' values, which the dissector does not decode."""
UNSEEN |= {"left over and cut off"}  # the frame, not the block, is cut


@pytest.mark.parametrize("prefix", ["", "planes_", "bf16_"], ids=["paper", "planes", "bf16"])
def test_vectors(prefix: str) -> None:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed")
    names = ["frame.number", "inceptionn.malformed", "inceptionn.type"]
    if prefix:
        names += [f"inceptionn.groups.code{code}" for code in range(16)]
    else:
        names += [f"inceptionn.lanes.{tag}" for tag in ("zero", "bits8", "bits16", "raw")]
    command = [tshark, "-X", f"lua_script:{DISSECTOR}", "-r", str(VECTORS / f"{prefix}receive_in.pcap")]
    command += ["-Y", "inceptionn", "-T", "fields", *(word for name in names for word in ("-e", name))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "lua" not in done.stderr.lower(), done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    seen = {int(number): rest for number, *rest in rows}
    types = set()
    checked = {"RESTORED": 0, "MALFORMED": 0}
    for sequence in json.loads((VECTORS / f"{prefix}receive.json").read_text()):
        for frame in sequence["frames"]:
            verdict = frame["verdict"]
            if verdict not in checked or frame["name"] in UNSEEN:
                continue
            malformed, kind, *counts = seen[frame["number"]]
            types.add(kind)
            assert (malformed in ("1", "True")) == (verdict == "MALFORMED"), frame["name"]
            if verdict == "RESTORED":
                assert list(map(int, counts)) == frame["codes" if prefix else "tags"], frame["name"]
            checked[verdict] += 1
    assert min(checked.values()) >= 15
    assert types == ({"fp32", "bf16"} if prefix == "bf16_" else {"fp32"})
