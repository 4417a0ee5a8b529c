# SPDX-License-Identifier: BSD-2-Clause
"""A part of a model's parameters under local updates: its anchor, outer step and residual, on the CPU."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from ...codec import Codec
from ...codec.scaling import Scaling
from ...collectives.error_feedback import ErrorFeedback
from ...system.text import brief
from ..host_copy import lanes_of, takes
from ..saved_state import a_scale, array, entries, whole

Kept = tuple[Mapping[Any, Any], Mapping[Any, Scaling]]
"""Residuals and usual scales."""


class Fragment:
    """Some parameters of a model, which are synchronised together.

    All values are flat float32 arrays on the CPU, parameter after parameter; complex ones are pairs. So the
    anchor of parameters in 16 bits keeps outer steps that are smaller than their precision, and all ranks
    compute the same bits on any device.

    Attributes: ``label``; ``parameters`` by name; ``sizes``, the lanes of each; ``anchor``, the weights that
    all ranks have agreed on last; ``momentum`` of the outer step; ``feedback``, with one residual of the name
    0; ``outer``, outer steps so far; ``together``, the inner step at which all ranks had the anchor as their
    weights last.
    """

    def __init__(self, label: str, parameters: Mapping[str, torch.Tensor], decay: float) -> None:
        self.parameters = dict(parameters)
        self.sizes = [lanes_of(parameter) for parameter in self.parameters.values()]
        self.label = f"{label}, {sum(self.sizes)} values"
        self.anchor = torch.cat([_lanes(each).to(torch.float32) for each in self.parameters.values()])
        self.momentum = torch.zeros_like(self.anchor)
        self.feedback = ErrorFeedback(Codec(), decay)
        self.outer = self.together = 0

    def _parts(self, flat: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield each parameter, and its part of flat values."""
        return zip(self.parameters.values(), flat.split(self.sizes), strict=True)

    def difference(self) -> torch.Tensor:
        """Return the anchor minus the weights, float32, in new memory: the "outer gradient" of DiLoCo.

        For weights in 16 bits this is the anchor rounded to them. Otherwise that rounding, which is no update
        of any rank, would move the anchor in each outer step.
        """
        found = self.anchor.clone()
        for parameter, part in self._parts(found):
            now = _lanes(parameter)
            wide = torch.promote_types(now.dtype, torch.float32)
            part.copy_(part.to(now.dtype).to(wide) - now.to(wide))
        return found

    def step(self, mean: torch.Tensor, lr: float, momentum: float) -> None:
        """Move the anchor by SGD with Nesterov momentum, as `torch.optim.SGD`. ``mean`` is overwritten.

        Products and sums are rounded one by one, so processors of all kinds compute the same bits.
        """
        self.momentum.mul_(momentum).add_(mean)
        mean.add_(self.momentum * momentum)
        self.anchor.sub_(mean.mul_(lr))
        self.outer += 1

    @torch.no_grad()
    def put(self, keep: float = 0.0) -> None:
        """Copy the anchor into the weights; ``keep`` is the share of their present values that stays."""
        for parameter, part in self._parts(self.anchor):
            values = part
            if keep:
                values = _lanes(parameter).to(torch.float32).mul(keep).add_(part * (1 - keep))
            target = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            target.copy_(values.view(target.shape))

    def kept(self) -> Kept:
        """Return copies of residual and usual scales, for `restore`."""
        return self.feedback.state_dict(), dict(self.feedback.usual)

    def restore(self, kept: Kept) -> None:
        """Undo what an exchange that has failed has done to residual and usual scales."""
        residuals, usual = kept
        self.feedback.load_state_dict(residuals)
        self.feedback.usual.update(usual)

    def digest(self) -> str:
        """Return 16 characters that tell anchor and momentum from others."""
        return digest_of((self.anchor, self.momentum))

    def state_dict(self, arrived: tuple[int, torch.Tensor] | None = None) -> dict[str, Any]:
        """Return counts, copies of the arrays, and the usual scale of each parameter.

        ``arrived``: the inner step of an exchange that began there, and its mean, before the outer step.
        """
        residuals, usual = self.kept()
        starts = np.cumsum(np.array(self.sizes, np.int64)) - self.sizes
        return {
            "outer": self.outer,
            "together": self.together,
            "anchor": self.anchor.clone(),
            "momentum": self.momentum.clone(),
            "residual": torch.from_numpy(residuals[0]) if residuals else None,
            "scales": usual[0].at(starts).tolist() if usual else None,
            "begun": None if arrived is None else arrived[0],
            "mean": None if arrived is None else arrived[1].clone(),
        }

    def check(self, saved: Any) -> None:
        """Raise ``ValueError`` if a state is not one of a fragment with these sizes."""
        needed, may_lack = (
            {"anchor", "momentum", "outer", "together"},
            {"residual", "mean", "begun", "scales"},
        )
        found = entries("the state of a fragment", saved, needed | may_lack)
        if (found["begun"] is None) != (found["mean"] is None):
            raise ValueError("begun and mean must be both None, or none of them")
        here = {name: value for name, value in found.items() if value is not None or name in needed}
        for name in ("outer", "together", "begun"):
            if name in here:
                whole(name, here[name])
        for name in ("anchor", "momentum", "residual", "mean"):
            if name in here:
                self._check_array(f"{name} of {self.label}", here[name])
        if (scales := found["scales"]) is not None:
            if not isinstance(scales, list) or len(scales) != len(self.sizes):
                raise ValueError(f"scales must be a list of {len(self.sizes)}, not {brief(scales)}")
            for scale in scales:
                a_scale(scale)

    def _check_array(self, name: str, values: Any) -> None:
        """Raise ``ValueError`` unless these are finite float32 values, as many as the fragment has."""
        found = array(name, values)
        if found.shape != tuple(self.anchor.shape):
            raise ValueError(
                f"{name} must be flat, of {self.anchor.numel()} values, not of shape {found.shape}: "
                "the state is that of another model, or of other fragments"
            )
        if not np.isfinite(found).all():
            raise ValueError(f"{name} has values that are not finite")

    def load_state_dict(self, saved: Mapping[str, Any]) -> tuple[int, torch.Tensor] | None:
        """Take over a state that `check` has passed. Return what had ``arrived``, or None."""
        self.outer, self.together = saved["outer"], saved["together"]
        self.anchor, self.momentum = (_copied(saved[name]) for name in ("anchor", "momentum"))
        residual, scales = saved["residual"], saved["scales"]
        self.feedback.load_state_dict({} if residual is None else {0: _copied(residual).numpy()})
        if scales is not None:
            self.feedback.usual[0] = Scaling.of(scales, self.sizes)
        return None if saved["mean"] is None else (saved["begun"], _copied(saved["mean"]))


def split(parameters: Mapping[str, torch.Tensor], count: int) -> list[dict[str, torch.Tensor]]:
    """Divide parameters in their order into ``count`` parts of about as many values, none without one."""
    items = list(parameters.items())
    ends = np.cumsum([lanes_of(parameter) for _, parameter in items]).tolist()
    parts, end = [], 0
    for number in range(1, count + 1):
        begin, end = end, end + 1
        while end < len(items) - (count - number) and ends[end] * count <= ends[-1] * number:
            end += 1
        parts.append(dict(items[begin:end]))
    return parts


def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the parameters of a model that are trained, by name; tied ones once.

    Raises ``TypeError`` for a model with DDP or FSDP in it, and a parameter that is sharded, sparse or of
    another type. ``ValueError`` if there are none, or if the optimizer trains one that the model lacks.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    for part in model.modules():
        if isinstance(part, DistributedDataParallel):
            raise TypeError("model must be the module in DDP, since DDP would send gradients in every step")
        if isinstance(part, FullyShardedDataParallel):
            raise TypeError("model must be whole at each rank, without FSDP")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {brief(optimizer)}")
    found = {name: each for name, each in model.named_parameters() if each.requires_grad}
    for name, parameter in found.items():
        if not takes(parameter) or hasattr(parameter, "to_local"):
            raise TypeError(f"{name} must be whole, dense and of a floating-point or complex type")
    if not found:
        raise ValueError("the model has no parameters that are trained")
    known = {id(parameter) for parameter in found.values()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and id(parameter) not in known:
                shape = tuple(parameter.shape)
                raise ValueError(f"the optimizer trains a parameter of shape {shape} that the model lacks")
    return found


def untracked(model: torch.nn.Module, known: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the names of a model's trained parameters that are not those of ``known``."""
    named = model.named_parameters()
    return [name for name, each in named if each.requires_grad and known.get(name) is not each]


def digest_of(tensors: Iterable[torch.Tensor]) -> str:
    """Return 16 characters that tell the values of some tensors from others."""
    digest = blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(_lanes(tensor).contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()


def _lanes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values on the CPU, flat, in their own type; those of complex ones as pairs."""
    values = tensor.detach().resolve_conj().resolve_neg()
    if values.is_complex():
        values = torch.view_as_real(values)
    return values.reshape(-1).cpu()


def _copied(values: torch.Tensor) -> torch.Tensor:
    return values.detach().cpu().contiguous().clone()
