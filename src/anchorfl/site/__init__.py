"""What happens at a site: it sees its own samples and what the server sent it, nothing else."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
