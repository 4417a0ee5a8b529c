# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's data parallelism between shaped hosts, with this package's compression and torch's own."""
