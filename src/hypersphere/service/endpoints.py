"""The API's endpoints. Their annotations are read when they are declared, with FastAPI's names at hand."""

import math
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from hypersphere.recognition import Gallery, pool_template
from hypersphere.service.answers import (
    Enrolled,
    Forgotten,
    GallerySummary,
    Health,
    Identification,
    ModelReport,
    Subjects,
    Verification,
    gallery_summary,
    identification,
    model_report,
    verification,
)
from hypersphere.service.guard import non_matches_of, used_up
from hypersphere.service.keys import Key
from hypersphere.service.one_person import check_one_person
from hypersphere.service.problems import Problem, refused
from hypersphere.service.projection import Projection, project
from hypersphere.service.service_metrics import label_text, prometheus_text
from hypersphere.service.service_state import ServiceState
from hypersphere.service.trail import request_entry, search_entry
from hypersphere.service.work import Work
from hypersphere.version import __version__

if TYPE_CHECKING:
    from fastapi import APIRouter

MOST_PHOTOS = 10
MOST_SUBJECTS = 1000
_WHY = {
    400: "the request cannot be parsed",
    401: "no token",
    403: "a wrong token, a key without the role, or a page of another site",
    404: "nobody of that name",
    408: "the body took too long",
    409: "the gallery is another model's, or the idempotency key is another template's",
    413: "too many bytes or pixels",
    415: "no image that can be read, or a form that is not in UTF-8",
    422: "not one face on a photo (`faces` says how many), or a parameter that is wrong",
    429: "too many requests, or too many decisions without a match; see Retry-After",
    500: "a fault of the service",
    503: "the gallery does not answer, or too many requests wait; see Retry-After",
}
_COMMON = (400, 401, 403, 422, 429, 500, 503)
_PHOTO = (*_COMMON, 408, 413, 415)


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem, "description": _WHY[status]} for status in sorted(statuses)}


def decisions(work: Work, state: ServiceState) -> "APIRouter":
    """Verify and identify: what answers about faces."""
    from fastapi import APIRouter, File, Form, Request

    router, settings = APIRouter(prefix="/v1", tags=["decisions"]), work.settings
    calibration = work.recognizer.calibration

    async def judged(kind: str, key: Key, match: bool) -> None:
        """Count a decision, and refuse to tell it where the key has used up those without a match."""
        most = non_matches_of(key, settings)
        if most and (wait := state.judged(f"non-matches of {key.name}", match, most)):
            raise used_up(most, wait)
        if most and not match:
            await work.save(state)
        state.count({("hypersphere_decisions_total", label_text(kind=kind, match=str(match).lower())): 1})

    @router.post("/verify", responses=_responses(*_PHOTO))
    async def verify(
        request: Request,
        first: Annotated[bytes, File(description="a photo with one face")],
        second: Annotated[bytes, File(description="another")],
        fmr: Annotated[float, Form(gt=0, le=1, description="the false-match rate not to exceed")] = 1e-3,
        crops: Annotated[bool, Form(description="whether to return the aligned faces")] = False,
    ) -> Verification:
        """Whether two photos show one person, at a stated false-match rate. Liveness is not checked."""
        calibration.table.at(fmr)
        one, two = await work.faces([first, second])
        decision = work.recognizer.decide(one.unit, two.unit, fmr)
        key = request.scope["key"]
        await judged("verify", key, decision.match)
        return verification(decision, [one, two], calibration, crops=crops, scores=key.may("scores"))

    @router.post("/identify", responses=_responses(*_PHOTO, 409))
    async def identify(
        request: Request,
        photo: Annotated[bytes, File(description="a photo with one face")],
        fpir: Annotated[
            float, Form(gt=0, le=1, description="the false-positive identification rate not to exceed")
        ] = 1e-2,
        k: Annotated[int, Form(ge=1, le=10, description="candidates at most")] = 10,
        crops: Annotated[bool, Form(description="whether to return the aligned face")] = False,
    ) -> Identification:
        """Who of the gallery is on a photo: those who reach the threshold of a stated rate; nobody is an answer."""
        (face,) = await work.faces([photo])
        decision = await work.search(face.unit, fpir)
        key = request.scope["key"]
        work.trail(search_entry(key.name, decision))
        await judged("identify", key, decision.match)
        return identification(decision, face, calibration, k=k, crops=crops, scores=key.may("scores"))

    return router


def people(work: Work) -> "APIRouter":
    """Enrol, list and forget: what changes or shows the gallery."""
    from fastapi import APIRouter, File, Form, Header, Path, Query, Request

    router = APIRouter(prefix="/v1", tags=["gallery"])

    @router.post("/enroll", status_code=201, responses=_responses(*_PHOTO, 409))
    async def enroll(
        request: Request,
        photos: Annotated[list[bytes], File(min_length=1, max_length=MOST_PHOTOS, description="each with one face")],
        name: Annotated[str, Form(min_length=1, max_length=200, description="who it is")],
        consent: Annotated[str, Form(min_length=1, max_length=1000, description="what the person agreed to")],
        keep_until: Annotated[
            date | None, Form(description="the last day (UTC) on which the template may be used")
        ] = None,
        idempotency_key: Annotated[
            str | None,
            Header(min_length=1, max_length=200, description="a repeated request with it stores nothing new"),
        ] = None,
    ) -> Enrolled:
        """Store a template of one or several photos of a person; when this answers, it is durable."""
        if name in (".", ".."):
            raise refused(422, "invalid", "name: an address could not name it, so nobody could delete it")
        expires = _end_of(keep_until)
        faces = await work.faces(photos)
        check_one_person([face.unit for face in faces], work.recognizer.calibration)
        template = pool_template(np.stack([face.unit for face in faces]))
        entry = request_entry("enroll", request.scope["key"].name, name)

        def store(gallery: Gallery) -> str:
            stored = gallery.enroll(name, template, key=idempotency_key, consent=consent, expires=expires)
            gallery.note([entry])
            return stored

        stored = await work.ask(store)
        return Enrolled(subject=name, template=stored, photos=len(photos), expires=expires)

    @router.get("/subjects", responses=_responses(*_COMMON, 409))
    async def subjects(
        after: Annotated[str, Query(max_length=200, description="only names after this one")] = "",
        limit: Annotated[int, Query(ge=1, le=MOST_SUBJECTS)] = 100,
    ) -> Subjects:
        """Names of the people who are enrolled, sorted."""
        names = await work.ask(lambda gallery: gallery.subjects(after, limit + 1))
        return Subjects(subjects=tuple(names[:limit]), more=len(names) > limit)

    @router.delete("/subjects/{name:path}", responses=_responses(*_COMMON, 404, 409))
    async def forget(request: Request, name: Annotated[str, Path(min_length=1, max_length=200)]) -> Forgotten:
        """Remove everything of a person; when this answers, it is gone from the gallery's file."""
        entry = request_entry("forget", request.scope["key"].name, name)

        def remove(gallery: Gallery) -> int:
            if count := gallery.forget(name):
                gallery.note([entry])
            return count

        removed = await work.ask(remove) if name.isprintable() else 0
        if not removed:
            raise refused(404, "unknown_subject", "nobody of that name is enrolled")
        return Forgotten(subject=name, removed=removed)

    @router.get("/gallery", responses=_responses(*_COMMON, 409))
    async def gallery() -> GallerySummary:
        """How many people and templates the gallery holds."""
        return gallery_summary(await work.ask(lambda gallery: gallery.info()))

    @router.get("/projection", responses=_responses(*_COMMON, 409))
    async def projection() -> Projection:
        """Templates of the gallery in three dimensions, to look at."""
        return await work.ask(lambda gallery: project(gallery.records(), gallery.dim))

    return router


def about(work: Work, state: ServiceState) -> "APIRouter":
    """The report of the model, and metrics."""
    from fastapi import APIRouter
    from fastapi.responses import PlainTextResponse

    router = APIRouter(tags=["about"])
    report = model_report(work.recognizer)

    @router.get("/v1/report", responses=_responses(*_COMMON))
    async def show_report() -> ModelReport:
        """The model in use: thresholds with their rates, the people they were measured on, how scores are spread."""
        return report

    @router.get("/metrics", response_class=PlainTextResponse, responses=_responses(*_COMMON))
    async def metrics() -> str:
        """Counts and times in Prometheus' text format, of all processes of the service together."""
        gauges = {("hypersphere_info", label_text(version=__version__, contract=report.contract)): 1.0}
        gauges["hypersphere_queue_requests", ""] = work.inside
        gauges["hypersphere_workers", ""] = work.settings.workers
        gauges["hypersphere_workers_busy", ""] = work.busy
        try:
            info = await work.gallery_info()
            gauges["hypersphere_gallery_templates", ""] = info.size
            gauges["hypersphere_gallery_subjects", ""] = info.subjects
            gauges["hypersphere_gallery_up", ""] = 1
        except Exception:
            gauges["hypersphere_gallery_up", ""] = 0
        return prometheus_text(state.counts(), gauges)

    return router


def health(work: Work) -> "APIRouter":
    """Whether the service lives and can work: asked without a token."""
    from fastapi import APIRouter

    router = APIRouter(tags=["about"])

    @router.get("/healthz", responses=_responses(400, 403, 500))
    async def show_health() -> Health:
        """Whether the service answers. Who restarts it when it does not asks this."""
        return Health(status="ok", version=__version__)

    @router.get("/readyz", responses=_responses(400, 403, 409, 500, 503))
    async def show_readiness() -> Health:
        """Whether the gallery answers and photos can be looked at. Who sends it requests asks this."""
        await work.gallery_info()
        if not work.can_look():
            raise refused(503, "no_worker", "no process can look at photos; start the service again")
        return Health(status="ready", version=__version__)

    return router


def _end_of(day: date | None) -> float | None:
    """The moment after a day, in seconds since 1970; a refusal where it has passed."""
    if day is None:
        return None
    end = _midnight(day)
    if end <= datetime.now(UTC).timestamp():
        raise refused(422, "invalid", "keep_until is over already")
    return end


def _midnight(day: date) -> float:
    try:
        following = day + timedelta(days=1)
        return math.floor(datetime(following.year, following.month, following.day, tzinfo=UTC).timestamp())
    except OverflowError:
        raise refused(422, "invalid", "keep_until is too far away; leave it out to keep the template") from None
