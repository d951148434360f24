"""The application: endpoints, errors as answers, the page."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypersphere.core import import_extra
from hypersphere.recognition import Recognizer
from hypersphere.service.guard import Guard
from hypersphere.service.photo_processes import Nursery
from hypersphere.service.problems import Problem, refusal_of
from hypersphere.service.service_settings import ServiceSettings
from hypersphere.service.service_state import ServiceState
from hypersphere.service.work import Work
from hypersphere.version import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

STATIC = Path(__file__).parent / "static"
_ABOUT = (
    "Verify, enrol, identify and forget faces on photos. Every decision states its threshold, error rate, interval and "
    "calibration set. Liveness is not checked. No embedding comes in or goes out, and no score where there is no match."
)


def create_app(
    recognizer: Recognizer,
    settings: ServiceSettings | None = None,
    *,
    state: ServiceState | None = None,
    nursery: Nursery | None = None,
) -> FastAPI:
    """An ASGI application that answers for a recognizer.

    Args:
        recognizer: with a gallery; a gallery that another process removes or locks is 503, never "no match".
        settings: of the service.
        state: what is remembered of clients; made by the settings by default.
        nursery: of processes that look at photos, as `serve` makes one; threads of this process by default.

    Example:
        >>> with hs.Recognizer(detector=None, gallery="people.db") as recognizer:
        ...     app = create_app(recognizer)
        >>> app.title
        'hypersphere'
    """
    import_extra("fastapi", "the service")
    import_extra("python_multipart", "the service")
    from fastapi import FastAPI
    from fastapi.responses import FileResponse
    from fastapi.staticfiles import StaticFiles

    from hypersphere.service.endpoints import about, decisions, health, people

    chosen = settings or ServiceSettings()
    shared = state or ServiceState(chosen.state)
    work = Work(recognizer, chosen, nursery)
    _keep_photos_in_memory(chosen.max_body)
    app = FastAPI(
        title="hypersphere",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_cleaning(work, shared),
    )
    app.include_router(health(work))
    for router in (decisions(work, shared), people(work), about(work, shared)):
        app.include_router(router, dependencies=_bearer(chosen))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC, follow_symlink=True), name="static")
    _answer_errors(app)
    app.add_middleware(Guard, settings=chosen, state=shared, work=work)
    return app


def _bearer(settings: ServiceSettings) -> list[Any]:
    """What the schema says of the token; the guard checks it."""
    from fastapi import Security
    from fastapi.security import HTTPBearer

    return [] if settings.open_to_all else [Security(HTTPBearer(auto_error=False))]


def _keep_photos_in_memory(max_body: int) -> None:
    """Let no photo be written to a temporary file, as parts of forms above 1 MB are."""
    from starlette.formparsers import MultiPartParser

    MultiPartParser.spool_max_size = max(MultiPartParser.spool_max_size, max_body + 1)


def _cleaning(work: Work, state: ServiceState) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work.keep_clean()), asyncio.create_task(work.keep_trail())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await work.write_trail()
            await work.save(state)
            work.close()

    return lifespan


def _answer_errors(app: FastAPI) -> None:
    """Give every error the body of a `Problem`."""
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

    from hypersphere.core import Failure
    from hypersphere.service.problems import Refusal

    def answer(status: int, problem: Problem, headers: Any = None) -> JSONResponse:
        return JSONResponse(dataclasses.asdict(problem), status, headers=headers)

    async def known(_: Request, error: Exception) -> JSONResponse:
        refusal = refusal_of(error)
        if refusal is None:
            raise error
        return answer(refusal.status, refusal.problem, refusal.headers)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        return answer(422, Problem(error="invalid", message=wrong))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        said: Any = error.detail
        problem = said if isinstance(said, Problem) else Problem(error=f"http_{error.status_code}", message=str(said))
        return answer(error.status_code, problem, error.headers)

    for kind in (Refusal, ValueError, Failure):
        app.add_exception_handler(kind, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
