"""The page in a real browser: photos, threshold, gallery, sphere, report; keyboard, phone, dark room."""

import base64
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hypersphere as hs
from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings, create_app
from tests.browser import Browser
from tests.service.photos import TWO_FACES, ByWidth, noise, painted

uvicorn = pytest.importorskip("uvicorn", reason="needs the package uvicorn")
HOSTILE = "<img src=x onerror=document.title='broken'>"
SIZES = [(1280, False), (1280, True), (390, False), (390, True)]


@pytest.fixture(scope="module")
def recognizer(starter: hs.Embedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recognizer]:
    address = str(tmp_path_factory.mktemp("gallery") / "people.db")
    with Recognizer(starter, detector=ByWidth(), calibration="starter", gallery=address) as made:
        yield made


@pytest.fixture(scope="module")
def address(recognizer: Recognizer) -> Iterator[str]:
    """A server with the page, in a thread."""
    app = create_app(recognizer, ServiceSettings(rate=0))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    end = time.monotonic() + 60
    while not server.started and time.monotonic() < end:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join()


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Browser]:
    """The page freshly loaded; it must not complain, nor ask for anything but its own server."""
    chromium.screen(1280, 900)
    visit(chromium, address, "verify")
    yield chromium
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith((address, "about:", "data:", "blob:"))] == []


def visit(browser: Browser, address: str, panel: str) -> None:
    browser.open("about:blank")
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(f"{address}#{panel}")
    until(browser, f"document.body.dataset.shown === '{panel}'")


def until(browser: Browser, condition: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not browser.run(condition):
        assert time.monotonic() < end, f"{condition}: {browser.run('document.body.innerText')}"
        time.sleep(0.05)


def text(browser: Browser, selector: str) -> str:
    return str(browser.run(f"document.querySelector({json.dumps(selector)}).innerText"))


def put(
    browser: Browser,
    selector: str,
    *photos: bytes,
    drop: bool = False,
    name: str = "photo.png",
    kind: str = "image/png",
) -> None:
    """Give an input its files, or drop one on a place."""
    data = json.dumps([base64.b64encode(photo).decode() for photo in photos])
    event = "new DragEvent('drop', {dataTransfer: files, bubbles: true})" if drop else "new Event('change')"
    browser.run(f"""(() => {{
      const place = document.querySelector({json.dumps(selector)}), files = new DataTransfer();
      for (const text of {data}) {{
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        files.items.add(new File([bytes], {json.dumps(name)}, {{type: {json.dumps(kind)}}}));
      }}
      if (!{json.dumps(drop)}) place.files = files.files;
      place.dispatchEvent({event});
    }})()""")


def compare(browser: Browser, first: bytes, second: bytes) -> None:
    put(browser, '[data-slot="first"]', first, drop=True)
    put(browser, "#file-second", second)
    browser.run("document.getElementById('compare').click()")
    until(browser, "!document.getElementById('compare').disabled")


def shot(browser: Browser, name: str) -> None:
    """Keep a screenshot where the environment asks for them."""
    if folder := os.environ.get("HYPERSPHERE_SCREENSHOTS"):
        Path(folder, f"{name}.png").write_bytes(browser.screenshot(whole=True))


def test_two_photos_are_compared(page: Browser) -> None:
    assert not page.run("document.getElementById('evidence').checkVisibility()"), "charts without a score"
    compare(page, painted(0), painted(0))
    verdict, setting = text(page, "#verify-answer").splitlines()
    assert verdict == "Probably the same person."
    assert setting.startswith("At this setting about one pair of strangers in 1,000 would pass for one person")
    bottom = "document.getElementById('compare').getBoundingClientRect().bottom"
    assert page.run(f"{bottom} < innerHeight"), "answer, photos and button are above the fold"
    assert "at least 1.00" in page.run("document.getElementById('numbers').textContent")
    assert page.run("document.querySelectorAll('.slot .box').length") == 2
    assert page.run("document.querySelectorAll('.slot .point').length") == 10
    assert page.run("[...document.querySelectorAll('.crop img')].map((each) => each.naturalWidth)") == [112, 112]
    assert page.run("document.querySelectorAll('#histogram .score, #det .score').length") == 2
    assert page.run("document.querySelectorAll('.view img, .view svg').length") == 4
    compare(page, painted(3), noise())
    assert text(page, "#verify-answer").splitlines()[0] in (
        "Probably two different people.",
        "Not sure enough that it is the same person.",
    )
    assert "good" not in page.run("document.getElementById('verify-answer').className")


def test_an_error_leaves_nothing_of_the_last_answer(page: Browser) -> None:
    compare(page, painted(0), painted(0))
    compare(page, painted(0), b"no photo")
    assert text(page, "#verify-answer") == "Second photo: this file cannot be read as a photo."
    assert not page.run("document.getElementById('evidence').checkVisibility()")
    assert page.run("document.querySelectorAll('.slot .box, .crop img').length") == 0
    page.complaints.clear()


def test_a_file_that_is_no_photo_is_named(page: Browser) -> None:
    put(page, '[data-slot="first"]', b"text", drop=True, name="notes.txt", kind="text/plain")
    assert text(page, '[data-slot="first"] .empty') == "notes.txt is no photo."
    assert page.run("document.querySelectorAll('.view img').length") == 0


def test_the_threshold_can_be_dragged_and_typed(page: Browser, recognizer: Recognizer) -> None:
    calibration = recognizer.calibration
    compare(page, painted(0), painted(0))
    page.run("document.getElementById('evidence').open = true")
    start = float(page.run("document.getElementById('threshold').value"))
    assert start == pytest.approx(calibration.table.at(1e-3).threshold + 0.005, abs=0.0051)
    page.run("document.getElementById('threshold').focus()")
    page.press("ArrowRight")
    moved = float(page.run("document.getElementById('threshold').value"))
    assert moved == pytest.approx(start + 0.01)
    at = int(
        page.run(
            f"import('/static/charts.js').then((m) => m.binAt({{edges: {list(calibration.curve.edges)}, "
            f"fmr: {calibration.curve.fmr.tolist()}}}, {moved}))"
        )
    )
    assert calibration.curve.edges[at] == pytest.approx(moved)
    shown = [float(f"{100 * rates[at]:.3g}") for rates in (calibration.curve.fmr, calibration.curve.fnmr)]
    words = text(page, "#rates")
    assert f"FMR {shown[0]:g} % [" in words
    assert f"FNMR {shown[1]:g} % [" in words
    page.run("document.getElementById('histogram').scrollIntoView()")
    x, y, width = page.run(
        "(({left, top, width}) => [left, top, width])(document.getElementById('histogram').getBoundingClientRect())"
    )
    for kind, place in (("mousePressed", 0.5), ("mouseMoved", 0.6), ("mouseReleased", 0.6)):
        page.call(
            "Input.dispatchMouseEvent", type=kind, x=x + place * width, y=y + 60, button="left", buttons=1, clickCount=1
        )
    assert float(page.run("document.getElementById('threshold').value")) != moved


def test_one_of_several_faces_can_be_chosen(page: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(page, painted(0), noise(width=TWO_FACES))
    assert text(page, "#verify-answer").startswith("Second photo: 2 faces were found")
    assert page.run("[...document.querySelectorAll('.face')].map((each) => each.ariaLabel)") == [
        "Face 1 of 2",
        "Face 2 of 2",
    ]
    assert all("422" in complaint for complaint in page.complaints)
    page.complaints.clear()
    sent = "document.querySelector('[data-slot=second] .view img').src"
    before = page.run(sent)
    look = ByWidth.__call__
    monkeypatch.setattr(ByWidth, "__call__", lambda self, images: [faces[:1] for faces in look(self, images)])
    page.run("document.querySelectorAll('.face')[1].click()")
    until(page, "document.querySelector('#verify-answer strong') !== null")
    assert page.run(sent) != before, "the photo with the other face painted over"
    assert page.run("document.querySelectorAll('.slot .box').length") == 2


def test_enrol_search_delete(page: Browser, address: str) -> None:
    for name, photo in (("Ada", painted(2)), (HOSTILE, painted(3))):
        visit(page, address, "gallery")
        page.run(f"document.querySelector('#enroll-form [name=name]').value = {json.dumps(name)}")
        page.run("document.querySelector('#enroll-form [name=consent]').value = 'the door'")
        put(page, "#enroll-form [name=photos]", photo)
        page.run("document.querySelector('#enroll-form button').click()")
        until(page, "document.querySelector('#enroll-form .answer').innerText.startsWith('Added')")
    until(page, "document.querySelectorAll('#people button').length === 2")
    assert HOSTILE in text(page, "#people")
    assert page.run("document.title") == "hypersphere: faces on the sphere"
    assert page.run("document.querySelectorAll('#people img').length") == 0
    put(page, "#search-form [name=photo]", painted(3))
    page.run("document.querySelector('#search-form button').click()")
    until(page, "document.querySelector('#search-form .answer strong') !== null")
    assert text(page, "#search-form .answer").startswith(f"Probably {HOSTILE}")
    assert HOSTILE in page.run("document.getElementById('search-numbers').textContent")
    put(page, "#search-form [name=photo]", noise())
    page.run("document.getElementById('fpir').value = '0.001'")
    page.run("document.querySelector('#search-form button').click()")
    until(page, "document.querySelector('#search-form .answer').innerText.startsWith('Nobody in the gallery')")
    for width, dark in SIZES:
        page.screen(width, 900, dark=dark, mobile=width < 500)
        shot(page, f"gallery-{width}-{'dark' if dark else 'light'}")
    visit(page, address, "sphere")
    assert "2 templates" in text(page, "#sphere-words")
    before = page.run("document.getElementById('globe').toDataURL()")
    page.run("document.getElementById('globe').focus()")
    page.press("ArrowRight")
    assert page.run("document.getElementById('globe').toDataURL()") != before
    visit(page, address, "gallery")
    for left in (1, 0):
        page.run("document.querySelector('#people button').focus()")
        page.press("Enter")
        assert text(page, "#people button") == "Really delete?"
        page.press("Enter")
        until(page, f"document.querySelectorAll('#people button').length === {left}")
    assert "Nobody yet" in text(page, "#people")


def test_the_policy_blocks_what_a_name_would_run(page: Browser) -> None:
    """Even if a name were put into the page as HTML."""
    page.run(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(HOSTILE)})")
    until(page, "document.querySelector('body > img[onerror]') !== null")
    page.run("new Promise((done) => setTimeout(done, 200))")
    assert page.run("document.title") == "hypersphere: faces on the sphere"
    assert any("Content Security Policy" in complaint for complaint in page.complaints)
    page.complaints.clear()


def test_the_report_and_the_law(page: Browser, address: str, recognizer: Recognizer) -> None:
    visit(page, address, "report")
    assert page.run("document.querySelectorAll('#thresholds tbody tr').length") == len(
        recognizer.calibration.table.thresholds
    )
    assert recognizer.calibration.table.digest in text(page, "#facts")
    assert page.run("document.querySelectorAll('#report-det .curve').length") == 1
    visit(page, address, "law")
    assert "It is no legal advice" in text(page, "#law")
    assert page.run("document.querySelectorAll('#law h3').length") >= 4


def test_everything_is_reached_by_the_keyboard(page: Browser) -> None:
    compare(page, painted(0), painted(0))
    page.run("document.getElementById('evidence').open = true")
    page.run("document.activeElement.blur()")
    reached = set()
    for _ in range(24):
        page.press("Tab")
        reached.add(
            page.run("((here) => here.id || here.getAttribute('href') || here.textContent)(document.activeElement)")
        )
    assert {
        "#verify",
        "#gallery",
        "#sphere",
        "#report",
        "#law",
        "file-first",
        "file-second",
        "Camera",
        "fmr",
        "compare",
        "threshold",
    } <= reached


@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_every_panel_fits_the_screen(
    page: Browser, address: str, recognizer: Recognizer, width: int, dark: bool
) -> None:
    for person in range(0 if recognizer.gallery.info().size else 4):
        recognizer.enroll(f"person {person}", painted(person), consent="test")
    page.screen(width, 844, dark=dark, mobile=width < 500)
    for panel in ("verify", "gallery", "sphere", "report", "law"):
        visit(page, address, panel)
        if panel == "verify":
            shot(page, f"empty-{width}-{'dark' if dark else 'light'}")
            compare(page, painted(0), painted(0, 1))
        assert page.run("document.documentElement.scrollWidth") <= width, panel
        assert page.run("getComputedStyle(document.body).backgroundColor") == (
            "rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)"
        )
        shot(page, f"{panel}-{width}-{'dark' if dark else 'light'}")


def test_a_token_is_asked_for(chromium: Browser, recognizer: Recognizer) -> None:
    token = "a token of many characters"
    app = create_app(recognizer, ServiceSettings(rate=0, token=token))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        visit(chromium, address, "verify")
        until(chromium, "!document.getElementById('token-form').hidden")
        chromium.run(f"document.getElementById('token').value = '{token}'")
        chromium.run("document.querySelector('#token-form button').click()")
        until(chromium, "document.getElementById('rates').innerText.startsWith('FMR')")
    finally:
        server.should_exit = True
        thread.join()


def test_the_files_refer_to_nothing_outside() -> None:
    folder = Path(hs.service.app.STATIC)
    texts: dict[str, Any] = {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".md"}
    assert {"index.html", "style.css", "page.js"} <= set(texts)
    for name, content in texts.items():
        links = content.replace("http://www.w3.org/2000/svg", "")
        assert "//" not in "".join(line.split("// ")[0] for line in links.splitlines()), name
        assert "innerHTML" not in content, name
        assert "eval(" not in content, name
    assert " style=" not in texts["index.html"]
    assert not re.search(r"<[^>]+\son\w+=", texts["index.html"])
