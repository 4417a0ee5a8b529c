# SPDX-License-Identifier: BSD-2-Clause
"""Parts that everything uses: AXI4-Stream, queues, memories, pipelines, delays, rotation, checksums."""
