"""What a gallery stores of itself: the contract of its templates, and a digest."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from hypersphere.core import digest, parse_json
from hypersphere.models.contract import Contract, parse_contract
from hypersphere.recognition.gallery.driver import GalleryDamaged
from hypersphere.recognition.gallery.stored_template import text_digest


def contract_digest(contract: Contract) -> str:
    """The digest of a whole contract, weights and preprocessing: what two embeddings must share to be compared."""
    return digest(contract)


def check_contract(contract: Contract) -> Contract:
    """The contract must say how wide embeddings are and which weights make them."""
    if not contract.width or not contract.digest:
        raise ValueError("contract: a gallery needs one with dim and digest, as `load_model(...).contract` has them")
    return contract


def settings_row(contract: Contract, **more: str) -> tuple[str, bytes]:
    """What a new gallery stores of itself, as JSON, and its digest."""
    document = {"contract": contract.table(), "digest": contract_digest(contract), "created": time.time(), **more}
    text = json.dumps(document, sort_keys=True)
    return text, text_digest(text)


def read_settings(rows: Sequence[Sequence[Any]], address: str) -> Contract:
    """The contract that a gallery stores.

    Args:
        rows: of its settings; there is one, with what `settings_row` made.
        address: for messages.

    Raises:
        GalleryDamaged: it is not what was written.
    """
    damaged = GalleryDamaged(f"{address}: its settings are damaged; restore a backup")
    if len(rows) != 1 or not isinstance(rows[0][0], str) or text_digest(rows[0][0]) != bytes(rows[0][1]):
        raise damaged
    document = parse_json(rows[0][0], f"{address}: settings")
    if not isinstance(document, dict) or not isinstance(document.get("contract"), dict):
        raise damaged
    contract = parse_contract(json.dumps(document["contract"]), address)
    if contract_digest(contract) != document.get("digest") or not contract.width:
        raise damaged
    return contract
