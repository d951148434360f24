"""Where images come from: formats, each with a reader and a writer; identities that two sets share."""

from hypersphere.core.read_arrays import read_npy, read_npz
from hypersphere.data.augment import Augmentation
from hypersphere.data.augmented_steps import AugmentedSteps
from hypersphere.data.convert import FORMATS, NOT_WRITTEN, guess_format, open_source, write_source
from hypersphere.data.corrupt import imbalance, long_tailed_counts, noisy_labels, step_counts, unlabelled
from hypersphere.data.doubtful import center_cosines, read_doubtful, share_threshold, write_doubtful
from hypersphere.data.every_image import image_names, images_digest, open_every_image
from hypersphere.data.file_access import is_image_name
from hypersphere.data.fit import Fitted
from hypersphere.data.formats import (
    CifarSource,
    FolderSource,
    ListSource,
    MarketSource,
    PackSource,
    RecordSource,
    TarSource,
    open_cifar,
    open_mnist,
    read_entries,
    read_idx,
    write_cifar,
    write_folder,
    write_idx,
    write_list,
    write_market,
    write_mnist,
    write_pack,
    write_records,
    write_tar,
)
from hypersphere.data.images import Image, UnreadableImage, decode, encode, image_size
from hypersphere.data.memory import InMemory
from hypersphere.data.mixing import cutmix, draw_mixup, mixup
from hypersphere.data.named import ImageFiles, NamedImages, NameIndex
from hypersphere.data.overlap import shared_names, similar_identities
from hypersphere.data.prefetch import Prefetcher, ProcessPrefetcher
from hypersphere.data.readable import ReadReport, check_readable, unreadable_among
from hypersphere.data.samplers import ClassBalancedBatches, IdentityBatches, ShuffledBatches
from hypersphere.data.source import (
    ArraySource,
    EncodedSource,
    ImageSource,
    Indices,
    Labels,
    Subset,
    batch,
    first_few,
    names_of,
)
from hypersphere.data.summary import read_some, summarize, without_unreadable

__all__ = [
    "FORMATS",
    "NOT_WRITTEN",
    "ArraySource",
    "Augmentation",
    "AugmentedSteps",
    "CifarSource",
    "ClassBalancedBatches",
    "EncodedSource",
    "Fitted",
    "FolderSource",
    "IdentityBatches",
    "Image",
    "ImageFiles",
    "ImageSource",
    "InMemory",
    "Indices",
    "Labels",
    "ListSource",
    "MarketSource",
    "NameIndex",
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
    "center_cosines",
    "check_readable",
    "cutmix",
    "decode",
    "draw_mixup",
    "encode",
    "first_few",
    "guess_format",
    "image_names",
    "image_size",
    "images_digest",
    "imbalance",
    "is_image_name",
    "long_tailed_counts",
    "mixup",
    "names_of",
    "noisy_labels",
    "open_cifar",
    "open_every_image",
    "open_mnist",
    "open_source",
    "read_doubtful",
    "read_entries",
    "read_idx",
    "read_npy",
    "read_npz",
    "read_some",
    "share_threshold",
    "shared_names",
    "similar_identities",
    "step_counts",
    "summarize",
    "unlabelled",
    "unreadable_among",
    "without_unreadable",
    "write_cifar",
    "write_doubtful",
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
