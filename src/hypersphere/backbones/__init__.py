"""Backbones: images to embeddings."""

from hypersphere.backbones.base import BACKBONES, Backbone
from hypersphere.backbones.create import create_backbone, list_backbones

__all__ = ["BACKBONES", "Backbone", "create_backbone", "list_backbones"]
