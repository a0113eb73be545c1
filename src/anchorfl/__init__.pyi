from anchorfl.errors import UserError as UserError
from anchorfl.experiment import Experiment as Experiment
from anchorfl.experiment import Result as Result
from anchorfl.experiment import load_run as load_run
from anchorfl.version import __version__ as __version__
