"""What is wrong with a request, as the service says it: a status, a word for programs, a sentence for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hypersphere.core import Failure
from hypersphere.data import UnreadableImage
from hypersphere.recognition import (
    DegenerateLandmarks,
    DuplicateTemplate,
    FaceCountError,
    GalleryMismatch,
    GalleryUnavailable,
    PhotoTooLarge,
)

_WITHOUT_ADDRESS: dict[type[Exception], str] = {
    GalleryMismatch: "the gallery holds templates of another model, or of another alignment",
    DuplicateTemplate: "another template has this idempotency key already",
}
"""What is said of a gallery in the place of the library's message, which has its address."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The body of every answer that is an error.

    Args:
        error: a word for programs.
        message: a sentence for people.
        photo: which of the photos it is about, from 1; None where it is about none.
        faces: how many faces were found, where one was expected.
        boxes: where they are, as shares of the photo's width and height: x0, y0, x1, y1.
        retry_after: after how many seconds to ask again.
    """

    error: str
    message: str
    photo: int | None = None
    faces: int | None = None
    boxes: tuple[tuple[float, ...], ...] | None = None
    retry_after: int | None = None


class Refusal(Exception):
    """A request that is refused.

    Args:
        status: of HTTP.
        problem: the body.
    """

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(problem.message)
        self.status = status
        self.problem = problem

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes with the status; where a body was not read to its end, the connection is closed."""
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        if self.status in (408, 413):
            headers["Connection"] = "close"
        if self.problem.retry_after is not None:
            headers["Retry-After"] = str(self.problem.retry_after)
        return headers


def refused(status: int, error: str, message: str, *, wait: float | None = None, photo: int | None = None) -> Refusal:
    """A refusal; `wait` is in how many seconds to ask again."""
    return Refusal(
        status,
        Problem(error=error, message=message, photo=photo, retry_after=None if wait is None else math.ceil(wait)),
    )


def refusal_of(problem: Exception, photo: int | None = None) -> Refusal | None:
    """The refusal that an error of the library becomes; None where it is nothing that a client can be told.

    Args:
        problem: the error.
        photo: which photo it came from, from 1.
    """
    if isinstance(problem, Refusal):
        return problem
    if isinstance(problem, FaceCountError):
        found = "no face was found" if problem.count == 0 else f"{problem.count} faces were found"
        message = f"photo {photo or 1}: {found}; expected one"
        boxes = tuple(problem.boxes) or None
        return Refusal(422, Problem(error="face_count", message=message, photo=photo, faces=problem.count, boxes=boxes))
    for kind, status, word in (
        (PhotoTooLarge, 413, "photo_too_large"),
        (UnreadableImage, 415, "unreadable_photo"),
        (DegenerateLandmarks, 422, "landmarks"),
        (GalleryMismatch, 409, "gallery_mismatch"),
        (DuplicateTemplate, 409, "duplicate"),
        (ValueError, 422, "invalid"),
    ):
        if isinstance(problem, kind):
            text = _WITHOUT_ADDRESS.get(kind) or str(problem).removeprefix("photo: ")
            return refused(status, word, text if photo is None else f"photo {photo}: {text}", photo=photo)
    if isinstance(problem, GalleryUnavailable):
        return unavailable()
    if isinstance(problem, Failure):
        return refused(500, "failure", "the work failed")
    return None


def unavailable() -> Refusal:
    """The gallery does not answer."""
    return refused(
        503,
        "gallery_unavailable",
        "the gallery does not answer: it is not known whether there is a match, nor whether anything was stored",
        wait=1,
    )
