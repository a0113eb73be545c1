"""The second exchange adds up to the regression that one owner of all data would solve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import Ridge

from anchorfl import Experiment, load_run
from anchorfl.data import ImageStore, load_dataset
from anchorfl.describe import joint_rows, projected
from anchorfl.describe.joint import WIDEST
from anchorfl.fusion.joint_ridge import JointRidge, unprojected
from tests.conftest import make_site, make_trainer, server_view

VIEW = server_view()


def test_it_is_the_ridge_of_all_data_in_one_place_however_they_are_spread(store: ImageStore) -> None:
    trainer = make_trainer("v4", **{"upload.min_count": 1, "fusion": "joint-ridge"})
    few, others = [0, 4, 8], [1, 2, 3, 5, 6, 7, 9, 10, 11]
    for owns in ([list(range(8)), list(range(8, 12))], [few, others]):
        sites = [make_site(trainer, k, store, own) for k, own in enumerate(owns)]
        for site in sites:
            site.train_round(0)
        uploads = [site.upload() for site in sites]
        encoders = [upload.encoder for upload in uploads]
        uploads = [
            replace(upload, statistics=site.statistics(2, encoders))
            for site, upload in zip(sites, uploads, strict=True)
        ]
        head = JointRidge(ridge=0.1).head(uploads, encoders, VIEW)
        trainer.network.eval()
        every = torch.arange(12)
        images, labels = store.take(every)
        with torch.no_grad():
            features = [trainer.runners.encode(each, images.float() / 255) for each in encoders]
        rows = joint_rows(features)
        strength = 0.1 * float((rows.double() ** 2).sum() / rows.shape[1])
        model = Ridge(alpha=strength, solver="cholesky")
        model.fit(rows[:, :-1].double().numpy(), np.eye(4)[labels.numpy()])
        wanted = torch.from_numpy(model.predict(rows[:, :-1].double().numpy())).float()
        wanted /= wanted[every, labels].mean()
        scores = head(torch.stack(features), images)
        torch.testing.assert_close(scores, wanted, atol=1e-4, rtol=1e-3)


def test_a_class_of_few_samples_is_not_described(store: ImageStore) -> None:
    trainer = make_trainer("v4", **{"upload.min_count": 3, "fusion": "joint-ridge"})
    site = make_site(trainer, 0, store, [0, 4, 8, 1, 5])  # 3 of class 0, 2 of class 1
    only = make_site(trainer, 1, store, [0, 4, 8])
    encoders = [site.upload().encoder]
    made = site.statistics(2, encoders)
    torch.testing.assert_close(made, only.statistics(2, encoders))
    assert made["joint_moments/cross"][:, -3:].abs().sum() == 0


def test_what_many_encoders_say_is_projected_to_a_width_that_can_travel() -> None:
    """The head needs no projection: it is in its matrix."""
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(20, 3, 512, generator=draw)
    rows = joint_rows(projected(list(features)))
    assert rows.shape == (3, WIDEST // 20 * 20 + 1)
    full = joint_rows(list(features))
    lengths = rows[:, :-1].norm(dim=1) / full[:, :-1].norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(3), atol=0.05, rtol=0)
    matrix = torch.randn(rows.shape[1], 4, generator=draw)
    wanted = rows @ matrix
    torch.testing.assert_close(full @ unprojected(matrix, [512] * 20), wanted, atol=1e-2, rtol=1e-3)


def test_a_run_with_it_counts_the_second_exchange_and_its_predictor_gives_the_same_answer(
    tmp_path: Path,
) -> None:
    settings = {"fusion": "joint-ridge,class-mean", "seed": 2, "device": "cpu"}
    Experiment("v4", train={"rounds": 3}, out=tmp_path / "run", **settings).run()
    result = load_run(tmp_path / "run")
    dataset = load_dataset(result.config.data)
    images = torch.from_numpy(dataset.test.images).float() / 255
    scores = result.predictor(images)
    right = float((scores.argmax(dim=1).numpy() == dataset.test.labels).mean())
    assert right == result.accuracy["joint-ridge"]
    assert right > 0.9
    assert right > result.accuracy["class-mean"]
    torch.testing.assert_close(result.predictor(images[3:4])[0], scores[3], atol=1e-4, rtol=1e-4)
    sent, received = result.summary.upload_bytes, result.summary.exchange_bytes
    assert received == [4 * (received[0] // 4)] * 5
    assert sum(sent) > sum(received) / 4
