# SPDX-License-Identifier: BSD-2-Clause
"""The virtual cluster: network namespaces as hosts, with NICs that run the generated Verilog.

`Cluster` starts the hosts and gives each a TAP device. Its frames pass a NIC (the verilated RTL, the golden
model, or none) and a switch that may lose, delay or damage them. Programs run unmodified on the hosts, with
real sockets, the kernel's TCP and real MPI. ``inceptionn cluster run`` is the command.
"""

from .cluster import Cluster, ClusterError
from .network.impairments import Impairments
from .report import HostReport, Report

__all__ = ["Cluster", "ClusterError", "HostReport", "Impairments", "Report"]
