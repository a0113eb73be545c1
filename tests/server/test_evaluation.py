import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score

from anchorfl.data import ImageStore
from anchorfl.predictor import build_predictor
from anchorfl.server import Belief, balanced_accuracy, evaluate, fuse, macro_f1, server_view
from anchorfl.settings import resolve
from anchorfl.site import Client
from tests.conftest import CPU, FACTS, make_trainer, tiny_split

NAMES = "feature-mean,normalised-feature-mean,softmax-mean,iffi,parameter-mean"


def test_figures_agree_with_scikit_learn() -> None:
    truth = [0, 0, 1, 1, 1, 3, 3, 0]
    guess = [0, 1, 1, 1, 3, 3, 0, 0]
    confusion = torch.from_numpy(confusion_matrix(truth, guess, labels=[0, 1, 2, 3])).double()
    assert balanced_accuracy(confusion) == pytest.approx(balanced_accuracy_score(truth, guess))
    assert macro_f1(confusion) == pytest.approx(f1_score(truth, guess, average="macro"))


def test_one_pass_runs_each_encoder_once_and_agrees_with_the_predictors(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = {"train.lr": 0.5, "train.clip_norm": 0, "train.local_epochs": 5}
    trainer = make_trainer("v4", fusion=NAMES, **apart)
    owns = [torch.arange(0, 10).numpy(), torch.arange(10, 24).numpy()]
    clients = [Client(k, trainer, store, own, 4) for k, own in enumerate(owns)]
    for client in clients:
        client.train_round(0, lambda samples: None)
    uploads = [client.upload() for client in clients]
    test = tiny_split(40, seed=9)
    calls: list[int] = []
    runner = trainer.runner
    encode = runner.encode
    monkeypatch.setattr(
        runner, "encode", lambda w, images, *how: calls.append(len(images)) or encode(w, images, *how)
    )
    view = server_view(trainer.config, FACTS, trainer.runners)
    fused = fuse(trainer.config.fusion, Belief(uploads), trainer.runners, view)
    evaluation = evaluate(fused, uploads, trainer.runners, ImageStore(test, CPU))
    assert sorted(calls) == [1, 1, 40, 40, 40]
    images = torch.from_numpy(test.images).float() / 255
    for name in NAMES.split(","):
        config = resolve("v4", {"fusion": name})
        predicted = build_predictor(config, FACTS, uploads, "abcd")(images).argmax(dim=1)
        matrix = confusion_matrix(test.labels, predicted, labels=range(4))
        assert torch.equal(evaluation.confusions()[name], torch.from_numpy(matrix).double()), name
    for upload in uploads:
        config = resolve("v4", {"fusion": "parameter-mean"})
        predicted = build_predictor(config, FACTS, [upload], "abcd")(images).argmax(dim=1)
        assert torch.equal(evaluation.local[upload.client], predicted)
