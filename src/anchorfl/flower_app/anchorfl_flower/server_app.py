"""What Flower runs beside the SuperLink."""

from anchorfl.transport.flower_server import app

__all__ = ["app"]
