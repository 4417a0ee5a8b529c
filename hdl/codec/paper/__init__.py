# SPDX-License-Identifier: BSD-2-Clause
"""The paper's codec: compression (Fig. 9) and decompression (Fig. 10) of fp32 lanes with two-bit tags."""
