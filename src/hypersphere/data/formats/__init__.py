"""Formats of image sets, one file each: a reader and a writer."""

from hypersphere.data.formats.cifar import CifarSource, open_cifar, write_cifar
from hypersphere.data.formats.folder import FileSource, FolderSource, folder_names, stored_images, write_folder
from hypersphere.data.formats.idx import open_mnist, read_idx, write_idx, write_mnist
from hypersphere.data.formats.list_file import ListSource, write_list
from hypersphere.data.formats.market import MarketSource, write_market
from hypersphere.data.formats.packs import PackSource, write_pack
from hypersphere.data.formats.recordio import RecordSource, write_records
from hypersphere.data.formats.tar import TarSource, read_entries, write_tar

__all__ = [
    "CifarSource",
    "FileSource",
    "FolderSource",
    "ListSource",
    "MarketSource",
    "PackSource",
    "RecordSource",
    "TarSource",
    "folder_names",
    "open_cifar",
    "open_mnist",
    "read_entries",
    "read_idx",
    "stored_images",
    "write_cifar",
    "write_folder",
    "write_idx",
    "write_list",
    "write_market",
    "write_mnist",
    "write_pack",
    "write_records",
    "write_tar",
]
