# SPDX-License-Identifier: BSD-2-Clause
"""Parsing of rates, times and shares."""

import math
import re

_RATE = re.compile(r"([0-9]*\.?[0-9]+)\s*([kmgt]?)(?:bit/s|bit|bps)?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)", re.IGNORECASE)
_SHARE = re.compile(r"([0-9]*\.?[0-9]+)\s*(%?)")
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECOND = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}

LEAST_RATE, MOST_RATE = 8e3, 1e12
"""Bits per second that a link can be shaped to: a byte per millisecond, up to what tc's counters hold."""


def bits_per_second(rate: str | float) -> float:
    """Return the bits per second of a number, or of a text such as "100m", "1g" or "2.5gbit".

    Prefixes are decimal. Raises ``ValueError`` for another text, or a rate that is not within 8 kbit/s to 1
    Tbit/s; it names the value.
    """
    value = _parsed(rate, _RATE, _PREFIX, "rate", "a number of bits per second such as '100m', '1g' or '10g'")
    if not LEAST_RATE <= value <= MOST_RATE:
        raise ValueError(f"rate must be 8 kbit/s to 1 Tbit/s, not {rate!r}; 10 Gbit/s is '10g'")
    return value


def seconds(time: str | float) -> float:
    """Return the seconds of a number, or of a text such as "20us" or "1.5ms".

    ``ValueError`` names the value.
    """
    value = _parsed(time, _TIME, _SECOND, "time", "a number of seconds or a text such as '20us' or '1ms'")
    if not 0 <= value <= 60:
        raise ValueError(f"time must be 0 to 60 seconds, not {time!r}")
    return value


def fraction(share: str | float) -> float:
    """Return 0..1 of a number, or of a text such as "0.01" or "1%". ``ValueError`` names the value."""
    value = _parsed(share, _SHARE, {"": 1.0, "%": 0.01}, "share", "a number in 0..1 or a text such as '1%'")
    if not 0 <= value <= 1:
        raise ValueError(f"share must be 0 to 1, or 0% to 100%, not {share!r}")
    return value


def rate_text(rate: float | None) -> str:
    """Format a rate for a table: "100 Mbit/s", or "unshaped" for None."""
    if rate is None:
        return "unshaped"
    prefix = max((name for name, factor in _PREFIX.items() if rate >= factor), key=lambda name: _PREFIX[name])
    return f"{rate / _PREFIX[prefix]:g} {prefix.upper().replace('K', 'k')}bit/s"


def _parsed(
    value: str | float, pattern: re.Pattern[str], units: dict[str, float], name: str, rule: str
) -> float:
    if isinstance(value, str):
        match = pattern.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"{name} must be {rule}, not {value!r}")
        return float(match[1]) * units[match[2].lower()]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be {rule}, not {value!r}")
    return float(value)
