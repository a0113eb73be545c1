"""What Flower runs at a site."""

from anchorfl.transport.flower_client import app

__all__ = ["app"]
