# SPDX-License-Identifier: BSD-2-Clause
"""Find the packages: each folder at the top level is one import package (all else is in pyproject.toml)."""

from setuptools import find_packages, setup

FOLDERS = {"inceptionn": "sw"} | {
    f"inceptionn.{name}": name for name in ("hdl", "sim", "boards", "constraints")
}
setup(
    package_dir=FOLDERS,
    packages=[
        *FOLDERS,
        *(f"{name}.{sub}" for name, folder in FOLDERS.items() for sub in find_packages(folder)),
    ],
)
