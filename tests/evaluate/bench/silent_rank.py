# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that misbehave, for the tests of jobs: the plan says how."""

import json
import sys
import time
from pathlib import Path

print("no JSON", flush=True)
print('{"line": 1}', flush=True)
what = json.loads(Path(sys.argv[2]).read_text())["what"]
if what == "fail":
    raise ValueError("a reason to fail")
if what == "silent":
    time.sleep(600)
