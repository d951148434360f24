"""Counts and times of requests in Prometheus' text format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of times."""
COUNTERS = {
    "hypersphere_requests_total": "Requests by route, method and status.",
    "hypersphere_refused_total": "Requests refused before any work, by reason.",
    "hypersphere_decisions_total": "Decisions by kind and outcome.",
}
GAUGES = {
    "hypersphere_info": "The version, and the digest of the model's contract.",
    "hypersphere_queue_requests": "Requests whose photos wait or are looked at.",
    "hypersphere_workers": "Processes that look at photos.",
    "hypersphere_workers_busy": "How many of them do.",
    "hypersphere_gallery_up": "Whether the gallery answers.",
    "hypersphere_gallery_templates": "Templates that can match.",
    "hypersphere_gallery_subjects": "People who have one.",
}
_TIMES = "hypersphere_request_seconds"
_BUCKET = f"{_TIMES}_bucket"
_SUM = f"{_TIMES}_sum"


def label_text(**values: str) -> str:
    """Labels as the format writes them.

    Example:
        >>> label_text(route="/v1/verify", status="200")
        'route="/v1/verify",status="200"'
    """
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in values.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


def request_counts(route: str, method: str, status: int, seconds: float) -> dict[tuple[str, str], float]:
    """What one request adds to the counts."""
    bound = next((f"{edge:g}" for edge in SECONDS if seconds <= edge), "+Inf")
    return {
        ("hypersphere_requests_total", label_text(route=route, method=method, status=str(status))): 1,
        (_BUCKET, label_text(route=route, le=bound)): 1,
        (_SUM, label_text(route=route)): seconds,
    }


def prometheus_text(counts: Mapping[tuple[str, str], float], gauges: Mapping[tuple[str, str], float]) -> str:
    """Counts and gauges, by name and labels, as Prometheus reads them."""
    lines: list[str] = []
    for kind, known, values in (("counter", COUNTERS, counts), ("gauge", GAUGES, gauges)):
        for name, about in known.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [_line(name, words, value) for (one, words), value in sorted(values.items()) if one == name]
    lines += [
        f"# HELP {_TIMES} Seconds from a request's first byte to its answer's last.",
        f"# TYPE {_TIMES} histogram",
    ]
    routes: dict[str, dict[str, float]] = defaultdict(dict)
    for (name, words), value in counts.items():
        if name == _BUCKET:
            route, _, bound = words.rpartition(",le=")
            routes[route][bound.strip('"')] = value
    for route, buckets in sorted(routes.items()):
        total = 0.0
        for edge in (*(f"{edge:g}" for edge in SECONDS), "+Inf"):
            total += buckets.get(edge, 0)
            lines.append(_line(_BUCKET, f'{route},le="{edge}"', total))
        lines += [_line(_SUM, route, counts[_SUM, route]), _line(f"{_TIMES}_count", route, total)]
    return "\n".join(lines) + "\n"


def _line(name: str, words: str, value: float) -> str:
    return f"{name}{{{words}}} {value:.10g}" if words else f"{name} {value:.10g}"
