# SPDX-License-Identifier: BSD-2-Clause
"""Constants of every codec and of the wire format, versions 1 (the paper's codec) and 2 (planes).

This package is the single source of every number that the wire format fixes. The RTL, the golden
model, the native codec and the documentation read it; it imports nothing but the standard library.
A codec is one module here, :mod:`.paper` or :mod:`.planes`, with its record. Section numbers refer to
``docs/wire-format.md``; "the paper" is Li et al., *A Network-Centric Hardware/Algorithm Co-Design to
Accelerate Distributed Training of Deep Neural Networks*, MICRO 2018.
"""

from .codec import DEFAULT_MODE, MODES, CodecClass, CodecName, CodecParameters, CodecSpec, Mode, three_numbers
from .codecs import (
    BF16_CODECS,
    BOUNDED,
    CODECS,
    DEFAULT_CODEC,
    DEFAULTS,
    PLANES,
    VARIANTS,
    Variant,
    codec_spec,
    variant,
)
from .frames import (
    DEFAULT_BF16_TOS,
    DEFAULT_MAX_PAYLOAD,
    DEFAULT_MIN_PAYLOAD,
    DEFAULT_TOS,
    DEFAULT_TOS_MASK,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_SERVICE_VLAN,
    ETHERTYPE_VLAN,
    FLOW_TABLE_SIZE,
    FLOW_TABLE_WAYS,
    MAX_TRANSMIT_FRAME,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    SHIM_BYTES,
    SHIM_MAGIC,
    Verdict,
    flow_index,
)
from .lanes import (
    BURST_BYTES,
    DEFAULT_K,
    EXPONENT_BIAS,
    GROUP_LANES,
    LANE_BYTES,
    MANTISSA_BITS,
    MAX_K,
    MAX_LANES,
    MIN_K,
    STREAM_LANES,
    WORD_BYTES,
    bound_exponent,
    error_bound_exponent,
)
from .paper import TAG_BYTES, TAG_WORD_BYTES, Parameters, Tag, parameters
from .planes import (
    BF16_LANES,
    CODE_BYTES,
    CODE_WORD_BYTES,
    CODE_WORD_GROUPS,
    CODES,
    FP32_LANES,
    RAW_CODE,
    RAW_EXPONENT,
    LaneType,
    PlanesParameters,
    planes_parameters,
)

__all__ = [
    "BF16_LANES", "BOUNDED", "BURST_BYTES", "CODECS", "CODES", "CODE_BYTES", "CODE_WORD_BYTES",
    "CODE_WORD_GROUPS", "CodecClass", "CodecName", "CodecParameters", "CodecSpec", "DEFAULT_BF16_TOS",
    "DEFAULTS", "DEFAULT_CODEC", "DEFAULT_K", "DEFAULT_MAX_PAYLOAD", "DEFAULT_MIN_PAYLOAD", "DEFAULT_MODE",
    "DEFAULT_TOS", "DEFAULT_TOS_MASK", "ETHERTYPE_IPV4", "ETHERTYPE_IPV6", "ETHERTYPE_SERVICE_VLAN",
    "ETHERTYPE_VLAN", "EXPONENT_BIAS", "FLOW_TABLE_SIZE", "FLOW_TABLE_WAYS", "FP32_LANES", "GROUP_LANES",
    "BF16_CODECS", "LANE_BYTES", "LaneType", "MANTISSA_BITS", "MAX_K", "MAX_LANES", "MAX_TRANSMIT_FRAME",
    "MIN_K", "MODES", "Mode", "PLANES", "PROTOCOL_TCP", "PROTOCOL_UDP", "Parameters", "PlanesParameters",
    "RAW_CODE", "RAW_EXPONENT", "SHIM_BYTES", "SHIM_MAGIC", "STREAM_LANES", "TAG_BYTES", "TAG_WORD_BYTES",
    "Tag", "VARIANTS", "Variant", "Verdict", "WORD_BYTES", "bound_exponent", "codec_spec",
    "error_bound_exponent", "flow_index", "parameters", "planes_parameters", "three_numbers", "variant",
]  # fmt: skip
