# SPDX-License-Identifier: BSD-2-Clause
"""In-network gradient compression (INCEPTIONN, MICRO 2018): host package.

Extras install what each part needs: ``inceptionn[hdl]`` for ``inceptionn.hdl`` and ``inceptionn.boards``,
``inceptionn[sim]`` for ``inceptionn.sim``, and so on. Importing this package loads none of them.
"""

import logging as _logging
from importlib.metadata import version as _version

from . import codec
from .codec import *  # noqa: F403 - its names are listed there
from .wire import (
    BOUNDED,
    CODECS,
    DEFAULT_CODEC,
    DEFAULTS,
    MAX_K,
    MODES,
    PLANES,
    STREAM_LANES,
    VARIANTS,
    CodecName,
    Mode,
    Parameters,
    Tag,
    Variant,
    Verdict,
    parameters,
)

__all__ = [
    "BOUNDED", "CODECS", "CodecName", "DEFAULTS", "DEFAULT_CODEC", "MAX_K", "MODES", "Mode", "PLANES",
    "Parameters", "STREAM_LANES", "Tag", "VARIANTS", "Variant", "Verdict", "parameters",
]  # fmt: skip
__all__ += codec.__all__
__version__ = _version("inceptionn")

# A library is silent until its user configures logging; the command line does so with --log.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())
