# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD (Xu et al., 2021): servers update globally, workers locally, and pull every k steps.

`trainer` is Algorithm 1, `local_update` Algorithm 2 with its alternatives.
"""

from .local_update import GLU, LOCAL_UPDATES, DCASGDa, LocalSGD, LocalUpdate
from .trainer import SSDSGD

__all__ = ["GLU", "LOCAL_UPDATES", "SSDSGD", "DCASGDa", "LocalSGD", "LocalUpdate"]
