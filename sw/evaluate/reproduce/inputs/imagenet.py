# SPDX-License-Identifier: BSD-2-Clause
"""AlexNet, ResNet-50 and VGG-16 as published, in torch, for gradients of their real shapes.

No data of ImageNet is used: images are random noise filtered to the spectrum of photographs, and labels are
random. So gradients have the right layers, fan-ins and counts, and are labelled synthetic everywhere.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ...training import Floats
from ...training.data import require_torch
from ..artefact import Artefact

IMAGES = "synthetic images (noise with a spectrum of 1/f, random labels), not ImageNet"
COUNTS = {"AlexNet": 60_965_224, "ResNet-50": 25_557_032, "VGG-16": 138_357_544}
"""Parameters."""
_SIDE = {"AlexNet": 227, "ResNet-50": 224, "VGG-16": 224}
_CLASSES, _RUN, _KEEP = 1000, 2048, 16
"""One run of 2048 values out of 16 is kept of each gradient."""


class Sample(NamedTuple):
    """Gradients (a sixteenth, in runs) after the first and the last step; seconds per step, and per image."""

    first: Floats
    last: Floats
    forward: float
    backward: float
    batch: int
    device: str


def sampled(made: Artefact, steps: int, names: Sequence[str] = tuple(COUNTS)) -> Iterator[tuple[str, Sample]]:
    """Yield the gradients of the networks by name; if there are none, note why."""
    try:
        if not made.torch:
            raise ModuleNotFoundError("the ImageNet networks were left out (--no-torch)")
        require_torch()
    except ModuleNotFoundError as error:
        made.notes.append(str(error))
        return
    for name in names:
        made.step(name)
        yield name, sample(name, steps, 4 if name == "ResNet-50" else 2, made.seed)


def alexnet(nn: Any) -> Any:
    """Make AlexNet. Krizhevsky et al. 2012, two groups, local response normalisation: 61.0 M parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 2), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 2),
        nn.MaxPool2d(3, 2), nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, _CLASSES),
    )  # fmt: skip


def vgg16(nn: Any) -> Any:
    """Make VGG-16. Simonyan and Zisserman 2014, configuration D: 138.4 M parameters."""
    layers: list[Any] = []
    channels = 3
    for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096),
        nn.ReLU(), nn.Dropout(), nn.Linear(4096, _CLASSES),
    )  # fmt: skip


def resnet50(nn: Any) -> Any:
    """Make ResNet-50. He et al. 2015: bottleneck blocks 3, 4, 6, 3; 25.6 M parameters."""

    def conv(inputs: int, outputs: int, side: int, stride: int = 1) -> tuple[Any, Any]:
        return nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False), nn.BatchNorm2d(outputs)

    class Bottleneck(nn.Module):
        def __init__(self, channels: int, width: int, stride: int) -> None:
            super().__init__()
            self.main = nn.Sequential(
                *conv(channels, width, 1), nn.ReLU(), *conv(width, width, 3, stride), nn.ReLU(),
                *conv(width, 4 * width, 1),
            )  # fmt: skip
            changes = stride > 1 or channels != 4 * width
            self.aside = nn.Sequential(*conv(channels, 4 * width, 1, stride)) if changes else nn.Identity()

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.main(x) + self.aside(x))

    layers = [*conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, repeats, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(repeats):
            layers.append(Bottleneck(channels, width, 1 if place else stride))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, _CLASSES))


NETWORKS: dict[str, Callable[[Any], Any]] = {"AlexNet": alexnet, "ResNet-50": resnet50, "VGG-16": vgg16}


@cache
def sample(name: str, steps: int, batch: int, seed: int) -> Sample:
    """Run some steps of SGD with momentum.

    Raises ``ModuleNotFoundError``, with what to install, without torch. It runs on a GPU where torch has one.
    VGG-16 needs 3 GB of memory and some seconds per image on a processor.
    """
    require_torch()
    torch = import_module("torch")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    model = NETWORKS[name](torch.nn)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
    torch.nn.init.normal_(model[-1].weight, std=0.01)  # as all three papers begin their last layer
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-5)
    images = _images(torch, batch, _SIDE[name], seed).to(device)
    labels = torch.randint(_CLASSES, (batch,)).to(device)
    kept, seconds = [], []
    for step in range(steps):
        optimizer.zero_grad()
        began = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.item()  # waits for a GPU
        between = time.perf_counter()
        loss.backward()
        if step in (0, steps - 1):
            kept.append(_kept(model))
        seconds.append((between - began, time.perf_counter() - between))
        optimizer.step()
    forward, backward = np.median(seconds, axis=0).tolist()
    name = torch.cuda.get_device_name() if device.type == "cuda" else "processor"
    return Sample(kept[0], kept[-1], forward, backward, batch, name)


def _images(torch: Any, batch: int, side: int, seed: int) -> Any:
    """Draw noise with photographs' amplitudes, 1/f; mean 0 and variance 1 per channel."""
    random = np.random.default_rng(seed)
    noise = np.fft.rfft2(random.standard_normal((batch, 3, side, side)))
    distance = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    images = np.fft.irfft2(noise / np.maximum(distance, 1 / side), s=(side, side))
    images -= images.mean(axis=(2, 3), keepdims=True)
    images /= images.std(axis=(2, 3), keepdims=True)
    return torch.from_numpy(images.astype(np.float32))


def _kept(model: Any) -> Floats:
    """Return a sixteenth of all gradients, in runs, layer by layer."""
    parts, whole = [], _RUN * _KEEP
    for parameter in model.parameters():
        flat = parameter.grad.detach().cpu().numpy().reshape(-1)
        rows = flat[: flat.size // whole * whole].reshape(-1, whole)
        parts.append(rows[:, :_RUN].flatten() if len(rows) else flat[: max(1, flat.size // _KEEP)].copy())
    return np.concatenate(parts)
