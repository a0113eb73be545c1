"""What happens at a site: it sees its own samples and what the server sent it, nothing else."""

from anchorfl.site.client import Client
from anchorfl.site.site import Site
from anchorfl.site.statistics import Samples, Statistic
from anchorfl.site.training import Trainer

__all__ = ["Client", "Samples", "Site", "Statistic", "Trainer"]
