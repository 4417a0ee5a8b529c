# SPDX-License-Identifier: BSD-2-Clause
"""The numbers that the papers print in tables and texts. Bars without a printed number are not here."""

NETWORKS = ("AlexNet", "HDC", "ResNet-50", "VGG-16")
TABLE_KEYS = {"AlexNet": "alexnet", "HDC": "hdc", "ResNet-50": "resnet50", "VGG-16": "vgg16"}
"""Names in `inceptionn.evaluate.pays.ratios.TABLE_III`."""
SIZE_MB = {"AlexNet": 233.0, "HDC": 2.5, "ResNet-50": 98.0, "VGG-16": 525.0}
"""Sec. VII-A."""

STEPS = ("Forward pass", "Backward pass", "GPU copy", "Gradient sum", "Communicate", "Update")
TABLE_II: dict[str, tuple[float, float, float, float, float, float, float]] = {
    "AlexNet": (3.13, 16.22, 5.68, 8.94, 148.71, 13.67, 196.35),
    "HDC": (0.08, 0.07, 0.0, 0.09, 1.36, 0.09, 1.7),
    "ResNet-50": (2.63, 4.87, 2.24, 3.68, 60.58, 1.55, 75.55),
    "VGG-16": (32.25, 142.34, 12.09, 19.89, 583.58, 30.50, 823.65),
}
"""Seconds per 100 iterations of `STEPS`, and the total (Table II)."""
TABLE_II_SHARES: dict[str, tuple[float, ...]] = {
    "AlexNet": (1.6, 8.3, 2.9, 4.6, 75.7, 7.0),
    "HDC": (4.9, 4.3, 0.0, 5.2, 80.2, 5.3),
    "ResNet-50": (3.5, 6.5, 3.0, 4.9, 80.2, 2.1),
    "VGG-16": (4.3, 17.3, 1.5, 2.4, 70.9, 3.7),
}
BANDWIDTH = 10e9
WORKERS = 4

FIG_12_TOTAL_LESS = {"AlexNet": 52.0, "HDC": 38.0, "ResNet-50": 49.0, "VGG-16": 31.0}
"""Percent by which INC's training time is below WA's (Sec. VIII-A)."""
FIG_12_EXCHANGE_LESS = {"AlexNet": 55.0, "HDC": 39.0, "ResNet-50": 58.0, "VGG-16": 36.0}
WA_C_LESS, INC_C_LESS_THAN_INC = 30.8, 53.9
"""Percent of communication time, "~" in the text."""
ABSTRACT_LESS = (70.9, 80.7)
ABSTRACT_SPEEDUP = (2.2, 3.1)
MORE_EPOCHS = (1, 2)
"""Sec. VIII-B."""
FIG_13_SPEEDUP = {"AlexNet": 3.1, "VGG-16": 2.2}

TRUNCATION_RATIO = {16: 2.0, 22: 3.2, 24: 4.0}
"""32 / (32 - x), by arithmetic; the text says "4x at most"."""
DROP_AT_6 = 2.0
"""Points of accuracy lost at 2^-6, at most."""
SNAPPY_RATIO, SNAPPY_TIME = 1.5, 2.0
"""Sec. III-A: ratio, and times the training time."""
FIG_7_SLOWDOWN = (2.0, 4.0)

TABLE_I_HDC = {"batch": 25, "rate": 0.1, "reduction": 5, "every": 2000, "momentum": 0.9, "decay": 5e-5}

# SSD-SGD, Xu et al. 2020.
SSD_SGD_TABLE_2 = {
    "ResNet-20 (32)": (92.126, 92.204, 92.228, 92.153, 92.148, 91.129),
    "ResNet-50 (64)": (73.650, 73.668, 73.648, 73.701, 73.364, 73.354),
    "ResNet-50 (32)": (73.792, 73.865, 73.810, 74.001, 74.004, 73.745),
}
"""Test accuracy in percent of SSGD and of 1 to 5 delay steps."""
# A2DTWP, Zhuang et al. 2020, Table II (x86, VGG, batch 64), milliseconds.
A2DTWP_TABLE_II = {
    "Data transfer CPU to GPU": (153.93, 52.27),
    "Data transfer GPU to CPU": (68.51, 73.55),
    "Convolution": (128.72, 126.13),
    "Fully-connected": (33.51, 34.17),
    "Gradient update": (54.39, 52.86),
    "AWP (l2-norm)": (0.0, 3.88),
    "ADT (Bitpack)": (0.0, 19.71),
    "ADT (Bitunpack)": (0.0, 4.51),
}
# Parallax, Kim et al. 2019, Table 4: thousand words per second of AR, NaivePS, OptPS, HYB.
PARALLAX_TABLE_4 = {"LM": (45.5, 98.9, 250.0, 274.0), "NMT": (68.3, 102.0, 116.0, 204.0)}
# GradiVeQ, Yu et al. 2018, Sec. 4.
GRADIVEQ_RATIO, GRADIVEQ_FASTER = 8.0, 5.25
GRADIVEQ_ACCURACY = {"raw": 0.676, "QSGD, 4 bits": 0.667, "GradiVeQ": 0.666}
