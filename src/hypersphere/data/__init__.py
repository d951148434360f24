"""Where images come from: formats, each with a reader and a writer; identities that two sets share."""

from hypersphere.data.augment import Augmentation
from hypersphere.data.convert import FORMATS, guess_format, open_source, write_source
from hypersphere.data.corrupt import imbalance, long_tailed_counts, noisy_labels, step_counts, unlabelled
from hypersphere.data.fit import Fitted
from hypersphere.data.formats.cifar import CifarSource, open_cifar, write_cifar
from hypersphere.data.formats.folder import FolderSource, write_folder
from hypersphere.data.formats.idx import open_mnist, read_idx, write_idx, write_mnist
from hypersphere.data.formats.list_file import ListSource, write_list
from hypersphere.data.formats.market import MarketSource, write_market
from hypersphere.data.formats.packs import PackSource, write_pack
from hypersphere.data.formats.recordio import RecordSource, write_records
from hypersphere.data.formats.tar import TarSource, write_tar
from hypersphere.data.images import UnreadableImage, decode, encode
from hypersphere.data.memory import InMemory
from hypersphere.data.mixing import cutmix, mixup
from hypersphere.data.named import ImageFiles, NamedImages
from hypersphere.data.overlap import shared_names, similar_identities
from hypersphere.data.prefetch import Prefetcher, ProcessPrefetcher
from hypersphere.data.readable import ReadReport, check_readable
from hypersphere.data.samplers import ClassBalancedBatches, IdentityBatches, ShuffledBatches
from hypersphere.data.source import (
    ArraySource,
    EncodedSource,
    ImageSource,
    Subset,
    batch,
    names_of,
)

__all__ = [
    "FORMATS",
    "ArraySource",
    "Augmentation",
    "CifarSource",
    "ClassBalancedBatches",
    "EncodedSource",
    "Fitted",
    "FolderSource",
    "IdentityBatches",
    "ImageFiles",
    "ImageSource",
    "InMemory",
    "ListSource",
    "MarketSource",
    "NamedImages",
    "PackSource",
    "Prefetcher",
    "ProcessPrefetcher",
    "ReadReport",
    "RecordSource",
    "ShuffledBatches",
    "Subset",
    "TarSource",
    "UnreadableImage",
    "batch",
    "check_readable",
    "cutmix",
    "decode",
    "encode",
    "guess_format",
    "imbalance",
    "long_tailed_counts",
    "mixup",
    "names_of",
    "noisy_labels",
    "open_cifar",
    "open_mnist",
    "open_source",
    "read_idx",
    "shared_names",
    "similar_identities",
    "step_counts",
    "unlabelled",
    "write_cifar",
    "write_folder",
    "write_idx",
    "write_list",
    "write_market",
    "write_mnist",
    "write_pack",
    "write_records",
    "write_source",
    "write_tar",
]
