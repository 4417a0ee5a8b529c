# SPDX-License-Identifier: BSD-2-Clause
"""The codec's parts that do not depend on its lane format: alignment and block memory."""
