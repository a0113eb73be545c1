"""What the server does with uploads: each fusion makes one predictor of them."""

from anchorfl.fusion.base import FUSIONS, Fusion, Head, ServerView, stacked
from anchorfl.fusion.class_mean import ClassMean, ClassWeighted
from anchorfl.fusion.joint_ridge import JointRidge, JointSketchRidge
from anchorfl.fusion.means import FeatureMean, NoiseWeighted, ParameterMean, SoftmaxMean
from anchorfl.fusion.sketched import SketchGuided, SketchRidge
from anchorfl.fusion.zscore import ZScore, ZScoreBatch

__all__ = [
    "FUSIONS",
    "ClassMean",
    "ClassWeighted",
    "FeatureMean",
    "Fusion",
    "Head",
    "JointRidge",
    "JointSketchRidge",
    "NoiseWeighted",
    "ParameterMean",
    "ServerView",
    "SketchGuided",
    "SketchRidge",
    "SoftmaxMean",
    "ZScore",
    "ZScoreBatch",
    "stacked",
]
