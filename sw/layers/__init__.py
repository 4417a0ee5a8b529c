# SPDX-License-Identifier: BSD-2-Clause
"""Training systems on the transports and the codec, one package each. They share these terms.

A *worker* computes gradients, and a *server* holds weights by *key*. Workers *push* gradients and *pull*
weights. A *step* is one gradient of every worker. The systems of the papers are `ssd_sgd`, `a2dtwp`,
`parallax` and `gradiveq`; most of them use `parameter_server`. `traffic` counts bytes by class.
"""
