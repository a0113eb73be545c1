"""What the server does with uploads: each fusion makes one predictor of them."""

from anchorfl.server.fusion import averages, class_mean, joint_ridge, sketched, zscore
from anchorfl.server.fusion.averages import PrototypeHead, mean_weights
from anchorfl.server.fusion.base import SKETCH, Fusion, Head, ServerView, sketch_sums, stacked

__all__ = [
    "SKETCH",
    "Fusion",
    "Head",
    "PrototypeHead",
    "ServerView",
    "averages",
    "class_mean",
    "joint_ridge",
    "mean_weights",
    "sketch_sums",
    "sketched",
    "stacked",
    "zscore",
]
