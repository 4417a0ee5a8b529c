# SPDX-License-Identifier: BSD-2-Clause
"""Messages between workers and servers: headers, forms of the values, and concurrent transfers."""
