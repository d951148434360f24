"""Galleries: templates of people behind one contract, in SQLite, PostgreSQL or Milvus."""

from hypersphere.recognition.gallery.addresses import open_gallery, restore_gallery
from hypersphere.recognition.gallery.driver import (
    AuditEntry,
    Candidate,
    Damage,
    DuplicateTemplate,
    Gallery,
    GalleryDamaged,
    GalleryInfo,
    GalleryMismatch,
    GalleryUnavailable,
    IndexCheck,
)
from hypersphere.recognition.gallery.exact_search import ExactSearch
from hypersphere.recognition.gallery.gallery_settings import contract_digest

__all__ = [
    "AuditEntry",
    "Candidate",
    "Damage",
    "DuplicateTemplate",
    "ExactSearch",
    "Gallery",
    "GalleryDamaged",
    "GalleryInfo",
    "GalleryMismatch",
    "GalleryUnavailable",
    "IndexCheck",
    "contract_digest",
    "open_gallery",
    "restore_gallery",
]
