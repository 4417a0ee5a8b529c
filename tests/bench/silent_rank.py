# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that misbehave, for the tests of jobs: the plan says how."""

import sys
import time

print("no JSON", flush=True)
print('{"line": 1}', flush=True)
if "fail" in sys.argv[1]:
    raise ValueError("a reason to fail")
if "silent" in sys.argv[1]:
    time.sleep(600)
