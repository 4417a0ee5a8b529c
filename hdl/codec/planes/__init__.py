# SPDX-License-Identifier: BSD-2-Clause
"""The planes codec (wire format version 2): lanes quantised by one step, groups stored as bit planes."""
