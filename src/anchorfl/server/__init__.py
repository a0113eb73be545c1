"""What a server does: it sees uploads, never a client's samples."""

from anchorfl.server.admission import Admission, Refusal, what_is_lacking
from anchorfl.server.calibration import calibration_error, fit_temperature
from anchorfl.server.costs import Cost, costs_of, count_flops
from anchorfl.server.evaluation import (
    Evaluation,
    Fused,
    balanced_accuracy,
    believed,
    evaluate,
    fuse,
    macro_f1,
    runners_for,
    server_view,
)
from anchorfl.server.fusion import SKETCH, Fusion, Head, PrototypeHead, ServerView, stacked
from anchorfl.server.halves import ServerHalf
from anchorfl.server.membership import without
from anchorfl.server.robust import Belief
from anchorfl.server.server import Server

__all__ = [
    "SKETCH",
    "Admission",
    "Belief",
    "Cost",
    "Evaluation",
    "Fused",
    "Fusion",
    "Head",
    "PrototypeHead",
    "Refusal",
    "Server",
    "ServerHalf",
    "ServerView",
    "balanced_accuracy",
    "believed",
    "calibration_error",
    "costs_of",
    "count_flops",
    "evaluate",
    "fit_temperature",
    "fuse",
    "macro_f1",
    "runners_for",
    "server_view",
    "stacked",
    "what_is_lacking",
    "without",
]
