import torch
import torch.nn.functional as F

from anchorfl.data import ImageStore
from anchorfl.fusion.class_mean import ClassMean, ClassWeighted, nearest_class, owners
from anchorfl.messages import Upload, unpack
from anchorfl.tensors import Tensors
from tests.conftest import make_site, make_trainer, server_view

VIEW = server_view()
IMAGES = torch.zeros(1, 1, 8, 8)


def upload(site: str, counts: list[int], means: torch.Tensor) -> Upload:
    statistics = {"class_means/mean": means}
    return Upload(site, torch.tensor(counts), {"prototypes": torch.zeros(3, 2)}, statistics)


def test_each_class_is_scored_by_the_clients_that_hold_it() -> None:
    first = upload("0", [16, 4, 0], torch.tensor([[3.0, 0.0], [0.0, 0.5], [0.0, 0.0]]))
    second = upload("1", [4, 0, 0], torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    features = F.normalize(torch.tensor([[[1.0, 2.0]], [[3.0, 1.0]]]), dim=2)
    head = ClassMean(q=0.5, border=0).head([first, second], [], VIEW)
    (f0,), (f1,) = features
    wanted = [(4 * f0[0] + 2 * f1[1]) / 6, f0[1], torch.tensor(-1.0)]
    torch.testing.assert_close(head(features, IMAGES)[0], torch.stack(wanted))
    equal = ClassMean(q=0.0, border=0).head([first, second], [], VIEW)
    torch.testing.assert_close(equal(features, IMAGES)[0, 0], (f0[0] + f1[1]) / 2)


def test_a_client_that_maps_everything_to_one_feature_gets_no_image() -> None:
    """Every cosine to its only class is 1, for synthetic pictures too."""
    sees = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))

    def encode(encoder: Tensors, images: torch.Tensor) -> torch.Tensor:
        seen = images.flatten(1) @ encoder["matrix"] + encoder["constant"]
        return F.normalize(seen, dim=1)

    collapsed = {"matrix": torch.zeros(64, 2), "constant": torch.tensor([1.0, 0.0])}
    honest = {"matrix": sees.T, "constant": torch.zeros(2)}
    view = server_view(encode=encode)
    one = upload("0", [0, 0, 50], torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    two = upload("1", [50, 50, 0], torch.tensor([[0.0, 1.0], [0.0, -1.0], [0.0, 0.0]]))
    encoders = [collapsed, honest]
    features = torch.stack([torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])])
    plain = ClassMean(border=0).head([one, two], encoders, view)(features, IMAGES)
    assert plain[0, 2] == plain[0, 0] == 1
    off = F.normalize(features + torch.tensor([[[0.0, 0.0]], [[0.2, 0.0]]]), dim=2)
    assert ClassMean(border=0).head([one, two], encoders, view)(off, IMAGES).argmax() == 2
    own = owners([one, two], 0.5, torch.device("cpu"))
    blind, seeing = nearest_class(own, encoders, view)
    torch.testing.assert_close(blind, torch.ones(len(blind)))
    assert seeing.quantile(0.01) < 0.97
    near = ClassMean(border=0.5).head([one, two], encoders, view)(features, IMAGES)
    assert near.argmax() == 0
    assert near.argmin() == 2


def test_where_every_encoder_has_collapsed_all_count() -> None:
    constant = torch.tensor([[1.0, 0.0]])
    view = server_view(encode=lambda encoder, images: constant.expand(len(images), 2))
    one = upload("0", [50, 0, 0], torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    two = upload("1", [0, 50, 0], torch.tensor([[0.0, 0.0], [1.0, 0.1], [0.0, 0.0]]))
    head = ClassMean().head([one, two], [{}, {}], view)
    assert head(constant.expand(2, 1, 2), IMAGES).argmax() == 0
    assert head.described.tolist() == [True, True, False]


def test_class_weighted_reads_the_owners_prototypes() -> None:
    prototypes = [torch.tensor([[3.0, 0.0], [0.0, 9.0]]), torch.tensor([[0.0, 2.0], [5.0, 0.0]])]
    counts = [torch.tensor([9, 0]), torch.tensor([1, 4])]
    uploads = [
        Upload(str(k), own, {"prototypes": p})
        for k, (own, p) in enumerate(zip(counts, prototypes, strict=True))
    ]
    features = F.normalize(torch.tensor([[[1.0, 2.0]], [[3.0, 1.0]]]), dim=2)
    (f0,), (f1,) = features
    scores = ClassWeighted(q=0.5).head(uploads, [], VIEW)(features, IMAGES)[0]
    torch.testing.assert_close(scores, torch.stack([(3 * f0[0] + f1[1]) / 4, f1[0]]))


def test_an_upload_contains_the_means_of_classes_held_often_enough(store: ImageStore) -> None:
    trainer = make_trainer("v4", **{"upload.min_count": 3})
    site = make_site(trainer, 0, store, [0, 4, 8, 1, 5, 2])  # 3 of class 0, 2 of class 1, 1 of 2
    means = site.upload().statistic("class_means")["mean"]
    assert means[1:].abs().sum() == 0
    weights = site.upload().weights
    trainer.network.eval()
    with torch.no_grad():
        features = trainer.runner.encode(weights, store.images[[0, 4, 8]].float() / 255)
    torch.testing.assert_close(means[0], features.mean(dim=0))


def test_class_means_travel_only_where_a_fusion_asks_for_them(store: ImageStore) -> None:
    for fusion, contained in (("feature-mean", False), ("feature-mean,class-mean", True)):
        sent = make_site(make_trainer("v4", fusion=fusion), 0, store, list(range(12))).upload()
        _, tensors = unpack("upload", sent.to_bytes())
        assert ("statistics/class_means/mean" in tensors) is contained
        again = Upload.from_bytes(sent.to_bytes())
        assert again.contains("class_means") is contained
