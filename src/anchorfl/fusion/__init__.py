"""What the server does with uploads: each fusion makes one predictor of them."""

from anchorfl.fusion.base import FUSIONS, Fusion, Head, ServerView
from anchorfl.fusion.class_mean import ClassMean, ClassWeighted
from anchorfl.fusion.joint_ridge import JointRidge
from anchorfl.fusion.means import FeatureMean, NoiseWeighted, ParameterMean, SoftmaxMean

__all__ = [
    "FUSIONS",
    "ClassMean",
    "ClassWeighted",
    "FeatureMean",
    "Fusion",
    "Head",
    "JointRidge",
    "NoiseWeighted",
    "ParameterMean",
    "ServerView",
    "SoftmaxMean",
]
