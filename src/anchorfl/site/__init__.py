"""What happens at a site: its own samples and the task it was sent, and nothing else."""

from anchorfl.site.client import Client
from anchorfl.site.statistics import Samples, Statistic
from anchorfl.site.training import Trainer

__all__ = ["Client", "Samples", "Statistic", "Trainer"]
