# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench``: measures the codec and the all-reduce against others, on the same data in one run."""
