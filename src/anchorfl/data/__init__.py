"""Official data sets, partitions over clients, and augmentation."""

from anchorfl.data.augment import UNCHANGED, Augmentation, augmentation_for
from anchorfl.data.catalog import DatasetSpec
from anchorfl.data.checking import Checked, check_images
from anchorfl.data.dataset import Dataset, Sites, Split, load_dataset
from anchorfl.data.draws import PartitionKind, draw_name, draw_partition
from anchorfl.data.facts import ImageFacts, Shape
from anchorfl.data.fetch import fetch_dataset
from anchorfl.data.folder import (
    SUFFIXES,
    class_folders,
    listed,
    read_images,
    readable_images,
)
from anchorfl.data.partition import Partition, labels_hash, load_partition
from anchorfl.data.sites import EXAMPLE, read_site_folder, split_by_table, write_example
from anchorfl.data.store import ImageStore
from anchorfl.data.synthetic import synthetic_pictures

__all__ = [
    "EXAMPLE",
    "SUFFIXES",
    "UNCHANGED",
    "Augmentation",
    "Checked",
    "Dataset",
    "DatasetSpec",
    "ImageFacts",
    "ImageStore",
    "Partition",
    "PartitionKind",
    "Shape",
    "Sites",
    "Split",
    "augmentation_for",
    "check_images",
    "class_folders",
    "draw_name",
    "draw_partition",
    "fetch_dataset",
    "labels_hash",
    "listed",
    "load_dataset",
    "load_partition",
    "read_images",
    "read_site_folder",
    "readable_images",
    "split_by_table",
    "synthetic_pictures",
    "write_example",
]
