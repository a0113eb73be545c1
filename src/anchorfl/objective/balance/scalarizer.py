"""Any TorchJD scalarizer as a balance: `torchjd:NAME`, with the extra `balance`.

A scalarizer makes one number of (B, A). Its parameters live in the client's state like every other
balance's. The two that remember more are fed through their public interface from tensors kept there.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anchorfl.errors import UserError
from anchorfl.objective.balance.base import Balance, ClientFacts, Losses
from anchorfl.objective.maths import ratio
from anchorfl.options import option
from anchorfl.randomness import seeded
from anchorfl.registry import suggestion
from anchorfl.tensors import Tensors

FAMO_EPSILON = 1e-8
SMALLEST_LOSS = 1e-12
NOT_OPTIONS = ("min_losses", "reference", "lr", "weight_decay")


def scalarizers() -> ModuleType:
    try:
        return import_module("torchjd.scalarization")
    except ImportError:
        raise UserError("torchjd:NAME needs the extra: pip install 'anchorfl[balance]'") from None


def stacked(losses: Losses) -> Tensor:
    """(B, A), held above 0: most scalarizers divide by a loss or take its logarithm."""
    return torch.stack([losses.base, losses.align]).clamp(min=SMALLEST_LOSS)


@dataclass(frozen=True)
class Scalarized(Balance):
    """The loss is a TorchJD scalarizer of (B, A).

    weights see    S(B, A): A counts dS/dA, B counts dS/dB
    source         TorchJD, torchjd.scalarization
    """

    name: ClassVar[str]
    lambda_: float = option(5.0, "preference (1, lambda), where the scalarizer takes one", above=0)
    strength: float | None = option(
        None, "the scalarizer's own number (mu, theta, temperature); unset: its default, or 1", above=0
    )
    sigma_lr: float = option(0.05, "learning rate of the scalarizer's parameters", at_least=0)
    sigma_momentum: float = option(0.9, "momentum of its parameters", at_least=0, below=1)

    def build(self, preference: Tensor) -> nn.Module:
        """A fresh scalarizer; its own number is the first argument that is one."""
        kind = getattr(scalarizers(), self.name)
        wanted = inspect.signature(kind).parameters
        arguments: dict[str, Any] = {"shape": 2, "weights": preference}
        numbers = [name for name in wanted if name not in (*arguments, *NOT_OPTIONS)]
        if numbers and (self.strength or wanted[numbers[0]].default is inspect.Parameter.empty):
            arguments[numbers[0]] = self.strength or 1.0
        built: nn.Module = kind(**{name: arguments[name] for name in arguments if name in wanted})
        return built

    def sgd(self, lr: float, momentum: float) -> tuple[float, float]:
        return self.sigma_lr, self.sigma_momentum

    def init(self, facts: ClientFacts) -> Tensors:
        preference = torch.tensor([1.0, self.lambda_])
        return {"preference": preference, **dict(self.build(preference).named_parameters())}

    def scalar(self, values: Tensor, state: Tensors) -> Tensor:
        module = self.build(state["preference"])
        own = {name: state[name] for name, _ in module.named_parameters()}
        result: Tensor = functional_call(module, own, (values,))
        return result

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        values = stacked(losses)
        return self.scalar(values, state), self.kept(values.detach(), state)

    def kept(self, values: Tensor, state: Tensors) -> Tensors:
        return {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        with torch.enable_grad(), seeded(0, "readings", device=losses.base.device):
            values = stacked(losses).detach().requires_grad_()
            base, align = torch.autograd.grad(self.scalar(values, state), values)[0]
        return {"lambda_raw": ratio(align, base), "lambda_effective": align, "base_weight": base}


@dataclass(frozen=True)
class DynamicWeightAverage(Scalarized):
    """DWA: the mean losses of the two epochs before are given to a fresh one in every step.

    weights see    w_B B + w_A A, w = 2 softmax(last epoch's mean / the one before / temperature)
    source         Liu, Johns and Davison, 2019; TorchJD
    """

    def init(self, facts: ClientFacts) -> Tensors:
        means = {name: torch.ones(2) for name in ("older", "newer")}
        counts = {"steps": torch.zeros(()), "batches": torch.tensor(float(facts.batches))}
        return {**super().init(facts), **means, **counts, "total": torch.zeros(2)}

    def scalar(self, values: Tensor, state: Tensors) -> Tensor:
        module: Any = self.build(state["preference"])
        settled = state["steps"] >= 2 * state["batches"]
        for mean in (torch.where(settled, state["older"], state["newer"]), state["newer"]):
            module(mean)
            module.step()
        result: Tensor = module(values)
        return result

    def kept(self, values: Tensor, state: Tensors) -> Tensors:
        steps, total = state["steps"] + 1, state["total"] + values
        ended = steps % state["batches"] == 0
        return {
            "steps": steps,
            "total": torch.where(ended, 0.0, total),
            "older": torch.where(ended, state["newer"], state["older"]),
            "newer": torch.where(ended, total / state["batches"], state["newer"]),
        }


@dataclass(frozen=True)
class FastAdaptive(Scalarized):
    """FAMO, with the change of the losses measured from one batch to the next.

    weights see    c sum_i z_i log L_i, z = softmax(w), c = 1 / sum_i (z_i / L_i)
    w sees         sum_i z_i (log L_i of the step before - log L_i), by the sigmas' SGD
    source         Liu, Feng, Stone and Liu, 2023; TorchJD (there w has an Adam of its own and a
                   second pass over the same batch)
    """

    def init(self, facts: ClientFacts) -> Tensors:
        return {**super().init(facts), "before": torch.zeros(2)}

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        loss, _ = super().loss(losses, state, anneal)
        now = stacked(losses).detach()
        before = torch.where(state["before"] > 0, state["before"], now)
        fallen = torch.log(before + FAMO_EPSILON) - torch.log(now + FAMO_EPSILON)
        return loss + (torch.softmax(state["_w"], dim=0) * fallen).sum(), {"before": now}


REMEMBERING: dict[str, type[Scalarized]] = {"DWA": DynamicWeightAverage, "FAMO": FastAdaptive}


def scalarized(name: str) -> type[Balance]:
    """The balance of one scalarizer, named as in torchjd.scalarization."""
    known = [each for each in scalarizers().__all__ if each != "Scalarizer"]
    if name not in known:
        raise UserError(
            f"torchjd:{name} is unknown{suggestion(name, known)} (known: {', '.join(known)})"
        )
    parent = REMEMBERING.get(name, Scalarized)
    return type(f"Scalarized{name}", (parent,), {"name": name, "__doc__": parent.__doc__})
