"""Facts about the data sets: where they come from, how they look, on what terms they may be used."""

from __future__ import annotations

from dataclasses import replace

from anchorfl.data import folder, readers, sites
from anchorfl.data.spec import DATASETS, DatasetSpec, Download

KRIZHEVSKY = "No licence is stated; cite Krizhevsky, Learning Multiple Layers of Features, 2009."


def official(place: str, *files: tuple[str, str]) -> tuple[Download, ...]:
    """Files, each with its md5, at an address."""
    return tuple(Download(f"{place}/{file}", md5) for file, md5 in files)


OWN_IMAGES = DatasetSpec(
    summary="your own images: data.root holds a folder per class, or train/ and test/ of them",
    terms="Yours.",
    reader=folder.read_folder,
    size=None,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
)
for name, spec in {
    "digits": DatasetSpec(
        summary="1,797 handwritten digits, 8x8 grey, 10 classes; embedded, no file needed",
        terms="UCI Optical Recognition of Handwritten Digits, CC BY 4.0; ships with scikit-learn.",
        reader=readers.read_digits,
        size=8,
        mean=(0.305,),
        std=(0.376,),
        defaults={"train.batch_size": 64},
        embedded=True,
    ),
    "cifar10": DatasetSpec(
        summary="60,000 photographs, 32x32 colour, 10 classes",
        terms=KRIZHEVSKY,
        reader=readers.read_cifar10,
        size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        flip=True,
        folder="cifar-10-batches-py",
        downloads=official(
            "https://www.cs.toronto.edu/~kriz",
            ("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
        ),
    ),
    "cifar100": DatasetSpec(
        summary="60,000 photographs, 32x32 colour, 100 fine classes",
        terms=KRIZHEVSKY,
        reader=readers.read_cifar100,
        size=32,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        flip=True,
        folder="cifar-100-python",
        downloads=official(
            "https://www.cs.toronto.edu/~kriz",
            ("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
        ),
    ),
    "svhn": DatasetSpec(
        summary="99,289 cropped house numbers, 32x32 colour, 10 classes",
        terms="Non-commercial use only; cite Netzer et al., Reading Digits in Natural Images, 2011.",
        reader=readers.read_svhn,
        size=32,
        mean=(0.4377, 0.4438, 0.4728),
        std=(0.1980, 0.2010, 0.1970),
        defaults={"data.crop": 0.5, "model.zoom": 0.8},
        downloads=official(
            "http://ufldl.stanford.edu/housenumbers",
            ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        ),
    ),
    "mnist": DatasetSpec(
        summary="70,000 handwritten digits, 28x28 grey, 10 classes",
        terms="CC BY-SA 3.0; cite LeCun, Cortes and Burges, The MNIST Database, 1998.",
        reader=readers.read_mnist,
        size=28,
        mean=(0.1307,),
        std=(0.3081,),
        downloads=official(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
            ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
            ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
    ),
    "fashion-mnist": DatasetSpec(
        summary="70,000 pictures of clothing, 28x28 grey, 10 classes",
        terms="MIT licence; cite Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017.",
        reader=readers.read_fashion_mnist,
        size=28,
        mean=(0.2860,),
        std=(0.3530,),
        flip=True,
        downloads=official(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
            ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
            ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
            ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
    ),
    "tiny-imagenet": DatasetSpec(
        summary="Tiny-ImageNet-200: 110,000 photographs, 64x64 colour, 200 classes",
        terms="Non-commercial research and education only, under ImageNet's terms of access.",
        reader=readers.read_tiny_imagenet,
        size=64,
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        flip=True,
        folder="tiny-imagenet-200",
        downloads=official(
            "http://cs231n.stanford.edu",
            ("tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"),
        ),
    ),
    "folder": OWN_IMAGES,
    "sites": replace(
        OWN_IMAGES,
        summary="your own images at several sites: data.root/SITE/CLASS/picture, shared as they lie",
        reader=sites.read_sites,
        defaults={"partition.kind": "sites"},
    ),
}.items():
    DATASETS.register(name)(spec)
