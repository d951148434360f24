"""What the service adds to the gallery's audit trail: which key asked for what."""

from __future__ import annotations

import time

from hypersphere.recognition import AuditEntry, IdentificationDecision


def request_entry(action: str, key: str, subject: str) -> AuditEntry:
    """Who changed the gallery; the gallery's own entry before it says what was changed."""
    return AuditEntry(time.time(), "request", subject, f"{action} by {key}")


def search_entry(key: str, decision: IdentificationDecision) -> AuditEntry:
    """Who searched, and whom the search found."""
    subject = decision.candidates[0].subject if decision.match else ""
    return AuditEntry(time.time(), "search", subject, f"{'match' if decision.match else 'no match'}, by {key}")
