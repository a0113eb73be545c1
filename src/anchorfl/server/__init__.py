"""What a server does: it sees uploads, never a site's samples."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
