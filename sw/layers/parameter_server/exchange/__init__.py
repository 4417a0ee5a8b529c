# SPDX-License-Identifier: BSD-2-Clause
"""Messages between workers and servers: their header, how values travel on a leg, several in flight."""
