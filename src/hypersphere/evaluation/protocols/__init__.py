"""Protocols, each read from its official files."""

from hypersphere.evaluation.protocols.registry import PROTOCOLS, list_protocols

__all__ = ["PROTOCOLS", "list_protocols"]
