"""What moves messages between the server and its sites, whatever lies between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from anchorfl.tensors import Tensors
from anchorfl.wire import ClientRound, Description, Request, Task, Upload

if TYPE_CHECKING:
    from anchorfl.engine.events import Event


class Engine(ABC):
    """Carries tasks down and uploads up; neither site nor server knows which engine does."""

    @abstractmethod
    def send(self, task: Task) -> None:
        """A task to every site: the first, or that of a later round."""

    @abstractmethod
    def train(self, number: int, listen: Callable[[Event], None]) -> Iterator[ClientRound]:
        """A round at every site; what they report of it, where they do."""

    @abstractmethod
    def uploads(self) -> list[Upload]:
        """What the sites upload after the round that they trained last."""

    @abstractmethod
    def describe(self, request: Request) -> list[Description]:
        """The second exchange."""

    @abstractmethod
    def checkpoint(self) -> dict[int, Tensors]:
        """By site, all that a round leaves behind there."""

    @abstractmethod
    def restore(self, saved: dict[int, Tensors]) -> None:
        """Put every site back to where a checkpoint was taken."""

    def trouble(self) -> str | None:
        """Why training is slower than it could be, if it is."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Give back what is held."""
