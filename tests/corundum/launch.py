# SPDX-License-Identifier: BSD-2-Clause
"""One simulation of Corundum's PCIe bench, in the bench's own environment: ``python launch.py JOB.json``.

Corundum's module lists the sources, sets the parameters and starts Icarus. What is changed on the way is the
application block, its parameters, and the cocotb module that runs. The job: ``bench``, the folder of
Corundum's test module; ``widths``, of PCIe, Ethernet and `sync` streams; ``sources``, Verilog in place of
the template's block, or none; ``parameters``; ``module``; ``build``, a folder; ``results``, a file.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BLOCK = "mqnic_app_block.v"


def main(path: str) -> None:
    job = json.loads(Path(path).read_text())
    sys.path.insert(0, job["bench"])
    import cocotb_test.simulator
    import test_mqnic_core_pcie_us as corundum

    start = cocotb_test.simulator.run

    def run(**arguments: Any) -> None:
        if job["sources"]:
            kept = [source for source in arguments["verilog_sources"] if Path(source).name != BLOCK]
            arguments["verilog_sources"] = kept + job["sources"]
        arguments["parameters"] |= job["parameters"]
        environment = {f"PARAM_{name}": str(value) for name, value in arguments["parameters"].items()}
        arguments["extra_env"] |= environment | {"INCEPTIONN_CORUNDUM_JOB": os.path.abspath(path)}
        arguments["python_search"] += [str(Path(__file__).parent)]
        start(**arguments | {"module": job["module"], "sim_build": job["build"]})

    os.environ["COCOTB_RESULTS_FILE"] = job["results"]
    os.environ["COCOTB_ANSI_OUTPUT"] = "0"
    os.environ.setdefault("COCOTB_LOG_LEVEL", "WARNING")
    cocotb_test.simulator.run = run
    request = SimpleNamespace(node=SimpleNamespace(name="inceptionn"))
    corundum.test_mqnic_core_pcie_us(request, 1, 1, *job["widths"], 1)


if __name__ == "__main__":
    main(sys.argv[1])
