"""What the server does with uploads: each fusion makes one predictor of them."""

from anchorfl.server.fusion import class_mean, joint_ridge, means, sketched, zscore
from anchorfl.server.fusion.base import Fusion, Head, ServerView, stacked
from anchorfl.server.fusion.means import PrototypeHead

__all__ = [
    "Fusion",
    "Head",
    "PrototypeHead",
    "ServerView",
    "class_mean",
    "joint_ridge",
    "means",
    "sketched",
    "stacked",
    "zscore",
]
