"""From a task to what sites and a server compute with: resolved settings, networks, descriptions."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
