# SPDX-License-Identifier: BSD-2-Clause
"""The VC709's connectivity reference design 2014.3: target, shell, platform, patch script."""
