# SPDX-License-Identifier: BSD-2-Clause
"""The values of a collective: callers' arrays as fp32 lanes, and the forms in which lanes are sent."""
