from anchorfl.measures.evaluation import Evaluation as Evaluation
from anchorfl.measures.evaluation import balanced_accuracy as balanced_accuracy
from anchorfl.measures.evaluation import calibration_error as calibration_error
from anchorfl.measures.evaluation import fit_temperature as fit_temperature
from anchorfl.measures.evaluation import macro_f1 as macro_f1
