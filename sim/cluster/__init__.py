# SPDX-License-Identifier: BSD-2-Clause
"""The virtual cluster: hosts that are network namespaces, with NICs that are the generated Verilog.

`Cluster` starts the hosts and gives each a TAP device. Its frames pass a NIC (the verilated RTL, the golden
model, or none) and a switch that may lose, delay or damage them. The programs on the hosts are not changed:
real sockets, the kernel's TCP, real MPI. ``inceptionn cluster run`` is the command line.
"""

from .cluster import Cluster, ClusterError
from .network.impairments import Impairments
from .report import HostReport, Report

__all__ = ["Cluster", "ClusterError", "HostReport", "Impairments", "Report"]
