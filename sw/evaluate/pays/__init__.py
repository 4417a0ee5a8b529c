# SPDX-License-Identifier: BSD-2-Clause
"""Does compression pay? Times of a training step by an alpha-beta-gamma model with codec terms.

`scenario.predict` takes a `Scenario` and gives a `Prediction`; ``inceptionn pays`` prints it. The model is
that of Thakur, Rabenseifner and Gropp (2005), which the INCEPTIONN paper uses in Sec. VIII-D, with packets,
codecs, sub-blocks that overlap, and hosts whose processors are the limit. ``inceptionn bench pays`` compares
it with measured all-reduces.
"""
