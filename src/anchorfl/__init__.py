"""One-shot federated learning under extreme label skew."""

from anchorfl.doors import door
from anchorfl.version import __version__ as __version__

__all__ = ["Experiment", "Result", "UserError", "__version__", "load_run"]
__getattr__ = door(__name__, __file__)
