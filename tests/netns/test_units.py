# SPDX-License-Identifier: BSD-2-Clause
"""Rates, times and shares, against answers worked by hand."""

from typing import Any

import pytest
from refusals import refused

from inceptionn.netns import Namespaces, Network, bits_per_second, fraction, rate_text, seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("100m", 1e8), ("1g", 1e9), ("10G", 1e10), ("2.5gbit", 2.5e9), ("9600", 9600.0), ("64 kbit/s", 64e3),
     ("1Gbps", 1e9), (5e6, 5e6), (".5m", 5e5)],
)  # fmt: skip
def test_rate(text: str | float, value: float) -> None:
    assert bits_per_second(text) == value


@pytest.mark.parametrize("text", ["", "fast", "1x", "-1g", "1g1", "1e9", True, None, float("nan")])
def test_no_rate(text: Any) -> None:
    with pytest.raises(ValueError, match="rate must be a number of bits per second") as error:
        bits_per_second(text)
    assert str(error.value).endswith(f"not {text!r}")


@pytest.mark.parametrize("text", ["0", "7k", "2t", 0])
def test_rate_out_of_range(text: str | float) -> None:
    refused(ValueError, "rate must be 8 kbit/s to 1 Tbit/s, not", bits_per_second, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("20us", 20e-6), ("1.5ms", 1.5e-3), ("2 s", 2.0), ("7ns", 7e-9), ("3µs", 3e-6), (0, 0.0)],
)
def test_time(text: str | float, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["20", "us", "-1ms", "1h", False])
def test_no_time(text: Any) -> None:
    with pytest.raises(ValueError, match="time must be") as error:
        seconds(text)
    assert str(error.value).endswith(f"not {text!r}")


def test_share() -> None:
    assert fraction("1%") == 0.01
    assert fraction("0.25") == 0.25
    assert fraction(1) == 1.0
    for text in ("101%", 1.5):
        refused(ValueError, "share must be 0 to 1, or 0% to 100%, not", fraction, text)


def test_rate_as_text() -> None:
    assert [rate_text(rate) for rate in (None, 1e8, 1e9, 1e10, 2.5e9, 64e3)] == [
        "unshaped", "100 Mbit/s", "1 Gbit/s", "10 Gbit/s", "2.5 Gbit/s", "64 kbit/s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hosts": 0}, "hosts must be 1..64, not 0"),
        ({"hosts": 2, "subnet": "10.0.0.0/33"}, "subnet must be an IPv4 network .* not '10.0.0.0/33'"),
        ({"hosts": 9, "subnet": "10.0.0.0/29"}, "subnet must have room for 9 hosts, not '10.0.0.0/29'"),
        ({"hosts": 2, "rate": "quick"}, "rate must be .* not 'quick'"),
        ({"hosts": 2, "delay": "20"}, "time must be .* not '20'"),
        ({"hosts": 2, "loss": 2}, "share must be .* not 2"),
        ({"hosts": 2, "mtu": 100}, "mtu must be 576..9216, not 100"),
    ],
)
def test_wrong_settings_name_the_value(arguments: dict[str, Any], text: str) -> None:
    refused(ValueError, text, Network, **arguments)


def test_hosts_are_an_integer() -> None:
    refused(TypeError, "hosts must be an integer, not '4'", Network, "4")


def test_names() -> None:
    assert Namespaces(2).names(7) == ["inc-7-0", "inc-7-1"]
    assert Network(1).names(0) == ["inc-0-0", "inc-0-switch"]
