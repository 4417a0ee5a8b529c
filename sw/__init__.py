# SPDX-License-Identifier: BSD-2-Clause
"""In-network gradient compression (INCEPTIONN, MICRO 2018): host package.

Extras install what each part needs: ``inceptionn[hdl]`` for ``inceptionn.hdl`` and ``inceptionn.boards``,
``inceptionn[sim]`` for ``inceptionn.sim``, and so on. Importing this package loads none of them.
"""

import logging as _logging
from importlib.metadata import version as _version

from .codec import Codec
from .wire import CODECS, MODES, Mode, Parameters, Tag, Verdict, parameters

__all__ = ["CODECS", "MODES", "Codec", "Mode", "Parameters", "Tag", "Verdict", "parameters"]
__version__ = _version("inceptionn")

# A library is silent until its user configures logging; the command line does so with --log.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())
