"""The server halves of methods of many rounds, by name."""

from anchorfl.server.halves import fedavg, fedproto
from anchorfl.server.halves.base import ServerHalf

__all__ = ["ServerHalf", "fedavg", "fedproto"]
