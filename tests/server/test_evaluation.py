import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score

from anchorfl.data import ImageStore, Shard
from anchorfl.measures import balanced_accuracy, macro_f1
from anchorfl.server import Server
from tests.conftest import CPU, make_setup, make_site, make_trainer, tiny_split

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
    sites = [make_site(trainer, k, store, own) for k, own in enumerate((range(10), range(10, 24)))]
    for site in sites:
        site.train_round(0)
    uploads = [site.upload() for site in sites]
    test = tiny_split(40, seed=9)
    server = Server(trainer.setup, CPU)
    server.hold(uploads)
    calls: list[int] = []
    runner = server.runners[""]
    encode = runner.encode
    monkeypatch.setattr(
        runner, "encode", lambda w, images, *how: calls.append(len(images)) or encode(w, images, *how)
    )
    evaluation = server.evaluate(server.fuse_all(), Shard.whole(test, CPU))
    assert sorted(calls) == [1, 1, 40, 40, 40]
    images = torch.from_numpy(test.images).float() / 255
    for name in NAMES.split(","):
        other = Server(make_setup("v4", fusion=name), CPU)
        other.hold(uploads)
        predicted = other.fuse()(images).argmax(dim=1)
        matrix = confusion_matrix(test.labels, predicted, labels=range(4))
        assert torch.equal(evaluation.confusions()[name], torch.from_numpy(matrix).double()), name
    for upload in uploads:
        other = Server(make_setup("v4", fusion="parameter-mean"), CPU)
        other.hold([upload])
        predicted = other.fuse()(images).argmax(dim=1)
        assert torch.equal(evaluation.local[upload.site], predicted)
