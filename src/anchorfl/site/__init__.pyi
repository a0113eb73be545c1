from anchorfl.site.site import Site as Site
from anchorfl.site.step import Trainer as Trainer
