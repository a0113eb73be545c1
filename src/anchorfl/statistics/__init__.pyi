from anchorfl.statistics.base import STATISTICS as STATISTICS
from anchorfl.statistics.base import Samples as Samples
from anchorfl.statistics.base import Statistic as Statistic
from anchorfl.statistics.base import exchanges as exchanges
