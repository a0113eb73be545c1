"""One-shot federated learning under extreme label skew."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anchorfl.errors import UserError
    from anchorfl.experiment import Experiment, Result, load_run

__version__ = "0.1.0"
__all__ = ["Experiment", "Result", "UserError", "__version__", "load_run"]


def __getattr__(name: str) -> Any:
    """Import the library proper at first use, so that the command starts at once."""
    if name in __all__:
        from anchorfl import errors, experiment

        return errors.UserError if name == "UserError" else getattr(experiment, name)
    raise AttributeError(f"module 'anchorfl' has no attribute '{name}'")
