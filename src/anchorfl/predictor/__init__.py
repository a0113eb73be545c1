"""The fused predictor: an ordinary module, its files, its answers, and one model in its place."""

from anchorfl.predictor.build import build_predictor, predictor_again, predictor_of
from anchorfl.predictor.distillation import distill, find_source
from anchorfl.predictor.export import check_target, export
from anchorfl.predictor.inference import (
    Measures,
    Prediction,
    confusion_of,
    labelled,
    measure,
    open_predictor,
    predict_images,
)
from anchorfl.predictor.module import Card, Predictor
from anchorfl.predictor.stored import load_predictor

__all__ = [
    "Card",
    "Measures",
    "Prediction",
    "Predictor",
    "build_predictor",
    "check_target",
    "confusion_of",
    "distill",
    "export",
    "find_source",
    "labelled",
    "load_predictor",
    "measure",
    "open_predictor",
    "predict_images",
    "predictor_again",
    "predictor_of",
]
