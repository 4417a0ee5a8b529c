# SPDX-License-Identifier: BSD-2-Clause
"""Training systems on the transports and the codec, one package each, with one vocabulary.

A *worker* computes gradients; a *server* holds weights by *key*; workers *push* gradients and *pull* weights;
a *step* is one gradient of every worker. `parameter_server` is the common ground; `ssd_sgd`, `a2dtwp`,
`parallax` and `gradiveq` are the systems of the papers. `traffic` counts bytes by class.
"""
