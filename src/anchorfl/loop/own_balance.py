"""A balance of somebody's own, asked once before training, so that a mistake is named and not met."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from anchorfl.errors import UserError, in_one_line
from anchorfl.events import ClientRound
from anchorfl.objective import Balance, ClientFacts, Losses
from anchorfl.registry import suggestion


def check_own_balance(name: str, balance: Balance, classes: int) -> None:
    """`loss` and `readings` on plain numbers: B = 2, A = 1, s = 1, a client of every class.

    Refused where one raises, or returns something else than the training loop takes.
    """
    facts = ClientFacts(torch.full((classes,), 10), batches=1)
    losses = Losses(*(torch.tensor(value, requires_grad=True) for value in (2.0, 1.0, 2.0)))
    one = torch.tensor(1.0)
    state = asked(name, "init", lambda: balance.init(facts))
    found = asked(name, "loss", lambda: balance.loss(losses, state, one))
    pair = isinstance(found, tuple) and len(found) == 2
    if not pair or not is_scalar(found[0]) or not isinstance(found[1], dict):
        raise UserError(f"method={name}: loss must return a tensor of one number, and a dict")
    unnamed = sorted(set(found[1]) - set(state))
    if unnamed:
        named = ", ".join(state) or "nothing"
        raise UserError(f"method={name}: loss returns '{unnamed[0]}', and init names {named}")
    reshaped = [key for key, value in found[1].items() if value.shape != state[key].shape]
    if reshaped:
        raise UserError(f"method={name}: loss returns '{reshaped[0]}' of another shape than init")
    if not found[0].requires_grad:
        raise UserError(f"method={name}: no gradient leads from its loss to B and A")
    readings = asked(name, "readings", lambda: balance.readings(losses, state, one))
    if not isinstance(readings, dict) or not all(map(is_scalar, readings.values())):
        raise UserError(f"method={name}: readings must return a dict of tensors of one number each")
    known = [item.name for item in fields(ClientRound)]
    for reading in readings:
        nearest = suggestion(str(reading), known)
        if reading not in known and nearest:
            raise UserError(f"method={name}: readings returns '{reading}'{nearest}")


def is_scalar(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0


def asked(name: str, part: str, compute: Callable[[], Any]) -> Any:
    """An error in code of somebody's own, with the line that raised it."""
    try:
        return compute()
    except Exception as error:  # a user's own code can raise anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise UserError(f"method={name}: {part}, line {place.lineno}: {in_one_line(error)}") from None
