"""The explorer's page in a real browser: link, controls, keyboard, exports, phone and dark room."""

import csv
import io
import json
import re
import time
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from hypersphere.theory import explorer
from tests.browser import Browser

ROOT = Path(__file__).parents[2]
SVG = "http://www.w3.org/2000/svg"


def settle(browser: Browser) -> None:
    """Wait for the frame in which changes are drawn."""
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_the_file_refers_to_nothing_outside() -> None:
    page = explorer.explorer_page()
    assert set(re.findall(r"https?://[^\s\"'`<)]+", page)) == {SVG}
    assert not re.search(r"\b(?:src|href)=\"", page)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|importScripts|\beval\(", page)
    assert page.count("<script") == page.count("</script>") == 2
    assert "default-src 'none'" in page


def test_every_file_of_the_page_is_installed() -> None:
    import tomllib

    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["hypersphere"]
    package = Path(str(files("hypersphere")))
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    folder = package / "theory" / "explorer"
    parts = {path for path in folder.iterdir() if path.suffix in (".js", ".css", ".html")}
    assert parts <= installed
    assert {path.stem for path in parts if path.suffix == ".js"} == set(explorer._SCRIPTS)


def test_a_link_holds_every_setting(browser: Browser, address: str) -> None:
    defaults: dict[str, Any] = browser.run("settings.defaults()")
    changed = browser.run("""(() => {
      const values = settings.defaults();
      const draw = motion.random(7);
      for (const [key, item] of settings.ALL) {
        const raw = item.min + draw() * (item.max - item.min);
        values[key] = item.integer || item.toggle ? Math.round(raw) : Number(raw.toPrecision(6));
      }
      values.losses = ["normface", "sphereface2_c", "c_triplet"];
      values["sphere.loss"] = "circle";
      values["sphereface2.b"] = null;
      return values;
    })()""")
    assert sum(changed[key] != defaults[key] for key in defaults) > len(defaults) - 4
    always = browser.run("settings.encode(settings.defaults())")
    for key in ("C", "d", "s", "cursor", "sphere.turn", "sphere.loss", "arcface.m", "losses"):
        assert f"{key}=" in always, "a link keeps its meaning when defaults change"
    link = browser.run(f"settings.encode({json.dumps(changed)})")
    assert browser.run(f"settings.decode({json.dumps(link)})") == changed
    browser.open("about:blank")
    browser.open(f"{address}#{link}")
    assert browser.run("page.state.values") == changed
    assert browser.run("location.hash") == f"#{link}"
    boxes = browser.run("[...document.querySelectorAll('#names input:checked')].map((box) => box.value)")
    assert boxes == changed["losses"]
    shown = browser.run("""Object.fromEntries([...document.querySelectorAll('input[type=number][data-key]')]
      .map((box) => [box.dataset.key, box.valueAsNumber]))""")
    for key, value in shown.items():
        if key != "sphereface2.b":
            assert value == pytest.approx(changed[key]), key
    assert {"C", "d", "s", "c_triplet.m", "circle.gamma", "sphere.k"} <= set(shown)


def test_a_changed_setting_is_in_the_link_and_the_link_restores_it(browser: Browser, address: str) -> None:
    browser.run("""(() => {
      const box = document.querySelector('#cards input[type=number][data-key="arcface.m"]');
      box.value = 0.25;
      box.dispatchEvent(new Event("change"));
    })()""")
    settle(browser)
    link = browser.run("location.href")
    assert "arcface.m=0.25" in link
    drawn = "page.drawn().map(({ name, rows, end }) => [name, rows, end])"
    before = browser.run(drawn)
    browser.open("about:blank")
    browser.open(link)
    assert browser.run(drawn) == before
    browser.run("location.hash = '#losses=normface&C=50'")
    settle(browser)
    assert browser.run("[page.state.values.losses, page.state.values.C]") == [["normface"], 50]


@pytest.mark.parametrize(
    "link",
    ["C=abc&d=-5&s=1e99", "losses=nothing,arcface&sphere.loss=none", "%E0%A4%A&=&&C", "sphere.k=99&cosface.m=auto"],
)
def test_a_broken_link_is_mended(browser: Browser, address: str, link: str) -> None:
    browser.open("about:blank")
    browser.open(f"{address}#{link}")
    values = browser.run("page.state.values")
    assert (values["C"], values["cosface.m"]) == (85_742, 0.5)
    assert values["d"] in (512, 2)
    assert values["s"] in (64, 512)
    assert values["sphere.loss"] == "lm_softmax"
    assert browser.run("document.querySelectorAll('#charts path').length") > 20


def test_the_papers_angles_are_shown(browser: Browser) -> None:
    facts = browser.run("document.getElementById('facts').textContent")
    assert "79.00°" in facts
    assert "39.50°" in facts
    assert "4.541e+6" in facts
    table = browser.run("document.getElementById('table').innerText")
    assert all(angle in table for angle in ("38.49°", "40.06°", "39.73°", "39.30°"))


def test_formulas_are_beside_and_on_hover(browser: Browser) -> None:
    text = browser.run("document.getElementById('cards').innerText")
    assert "t = s cos(θ + m) (m₂ of AmpFace eq. 3)" in text
    titles = browser.run("[...document.querySelectorAll('#names label')].map((label) => label.title)")
    assert len(titles) == 16
    assert all("(" in title for title in titles)


def test_the_keyboard_reaches_everything(browser: Browser) -> None:
    browser.run("document.getElementById('copy').focus()")
    seen = []
    for _ in range(200):
        browser.press("Tab")
        where = "(document.activeElement.id || document.activeElement.dataset.key || document.activeElement.value"
        seen.append(browser.run(f"{where} || document.activeElement.dataset.export || document.activeElement.tagName)"))
        if seen[-1] == "C" and seen.count("C") == 1:
            before = browser.run("page.state.values.C")
            browser.press("ArrowRight")
            settle(browser)
            assert browser.run("page.state.values.C") > before
        if seen[-1] == "canvas":
            turn = browser.run("page.state.values['sphere.turn']")
            browser.press("ArrowRight")
            assert browser.run("page.state.values['sphere.turn']") == turn + 5
        if seen[-1] == "sphere.csv":
            break
    for stop in ("d", "s", "normface", "c_triplet", "cursor", "curves.png", "cosface.m", "canvas", "play", "sphere.k"):
        assert stop in seen, stop


def test_arrow_keys_leave_the_smallest_value(browser: Browser) -> None:
    browser.run("page.state.change('C', 2)")
    settle(browser)
    browser.run("document.querySelector('#space input[data-key=C]').focus()")
    for _ in range(15):
        browser.press("ArrowRight")
        settle(browser)
    assert browser.run("page.state.values.C") == 3


def mouse(browser: Browser, kind: str, x: float, y: float, buttons: int = 0) -> None:
    button = "left" if buttons or kind == "mouseReleased" else "none"
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)


def middle(browser: Browser, selector: str) -> tuple[float, float]:
    script = f"""(() => {{
      const node = document.querySelector("{selector}");
      node.scrollIntoView({{ block: "center" }});
      const box = node.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    }})()"""
    x, y = browser.run(script)
    return x, y


def test_the_mouse_turns_the_sphere_and_moves_the_cursor(browser: Browser) -> None:
    x, y = middle(browser, "#canvas")
    mouse(browser, "mousePressed", x, y, 1)
    mouse(browser, "mouseMoved", x + 40, y + 10, 1)
    mouse(browser, "mouseReleased", x + 40, y + 10)
    turn, tilt = browser.run("[page.state.values['sphere.turn'], page.state.values['sphere.tilt']]")
    assert turn > 30 + 5
    assert tilt > 20 + 1
    assert f"sphere.turn={turn:g}" in browser.run("location.hash")
    x, y = middle(browser, "#charts svg")
    mouse(browser, "mouseMoved", x, y)
    settle(browser)
    assert browser.run("page.state.values.cursor") == pytest.approx(90, abs=12)


def test_the_link_button_says_what_it_did(browser: Browser) -> None:
    browser.run("document.getElementById('copy').click()")
    settle(browser)
    assert browser.run("document.getElementById('said').textContent") in ("Copied.", "The address bar holds the link.")
    browser.run("(page.state.change('C', 7), document.getElementById('reset-all').click())")
    assert browser.run("page.state.values") == browser.run("settings.defaults()")


def test_the_page_opens_on_a_settled_sphere(browser: Browser) -> None:
    assert browser.run("globe.settled()")
    assert browser.run("motion.margins(globe.world()).classes") == pytest.approx(74.45, abs=0.05)
    assert browser.run("document.getElementById('play').textContent") == "Play from the start"
    rest = browser.run("globe.world().all")
    browser.run("(document.getElementById('play').click(), document.getElementById('play').click())")
    assert browser.run("globe.world().step") < 5, "what is at rest is played from its start"
    browser.run("document.getElementById('reset-all').click()")
    assert browser.run("globe.world().all") == rest


def test_a_large_sphere_comes_to_rest_frame_by_frame(browser: Browser, address: str) -> None:
    browser.open("about:blank")
    browser.open(f"{address}#sphere.k=20&sphere.n=20")
    end = time.monotonic() + 60
    while not browser.run("globe.settled()") and time.monotonic() < end:
        settle(browser)
    assert browser.run("globe.settled()")
    browser.run("document.getElementById('restart').click()")
    settle(browser)
    assert browser.run("globe.world().step") == 0, "a reset ends it"


def test_on_a_phone_the_sliders_come_first(browser: Browser, address: str) -> None:
    top = "(selector) => document.querySelector(selector).getBoundingClientRect().top"
    for width in (390, 1280):
        browser.screen(width, 844, mobile=width < 500)
        browser.open("about:blank")
        browser.open(address)
        space, cards, charts, knobs, canvas = browser.run(
            f"['#space', '#cards', '#charts', '.knobs', '#canvas'].map({top})"
        )
        phone = width < 500
        assert space < cards
        assert (cards < charts, knobs < canvas) == (phone, phone)
        assert browser.run("document.getElementById('losses').open") != phone
        assert browser.run("document.getElementById('chosen').textContent") == "Losses: 4 of 16 chosen"
        if phone:
            assert charts - space < 844, "the first chart is one screen below the first slider"


def test_play_pause_step_reset(browser: Browser) -> None:
    browser.run("document.getElementById('play').focus()")
    browser.press(" ")
    end = time.monotonic() + 20
    while browser.run("globe.world().step") < 3 and time.monotonic() < end:
        settle(browser)
    assert browser.run("document.getElementById('play').textContent") == "Pause"
    browser.press(" ")
    steps = browser.run("globe.world().step")
    settle(browser)
    assert browser.run("globe.world().step") == steps >= 3
    browser.run("document.getElementById('step').click()")
    assert browser.run("globe.world().step") == steps + 1
    first = browser.run("(document.getElementById('restart').click(), globe.world().all)")
    assert browser.run("globe.world().step") == 0
    again = browser.run("(globe.advance(5), document.getElementById('restart').click(), globe.world().all)")
    assert again == first
    browser.run("page.state.change('sphere.seed', 1)")
    assert browser.run("globe.world().all") != first


def test_margins_count_up_to_the_best_known(browser: Browser) -> None:
    browser.run("page.state.change('sphere.k', 4); globe.advance(400); globe.show()")
    text = browser.run("document.getElementById('margins').innerText")
    assert "109.4712° for 4 points (Tammes)" in text
    shown = float(re.search(r"class margin\s+([\d.]+)°", text)[1])  # type: ignore[index]
    assert shown == pytest.approx(109.47, abs=0.1)
    assert browser.run("document.querySelector('#margins meter').max") == pytest.approx(109.4712206)


def test_sphereface2_learns_its_bias_unless_told(browser: Browser) -> None:
    start, moved = browser.run("""(() => {
      page.state.change("sphere.loss", "sphereface2_a");
      globe.advance(1);
      const start = globe.world().bias.value;
      globe.advance(50);
      return [start, globe.world().bias.value];
    })()""")
    assert start != moved
    assert browser.run("(page.state.change('sphereface2.b', 2), globe.advance(1), globe.world().bias.value)") is None


def content(browser: Browser, name: str) -> bytes:
    numbers = browser.run(f"page.exported('{name}').then((b) => b.arrayBuffer()).then((b) => [...new Uint8Array(b)])")
    return bytes(numbers)


def test_exports(browser: Browser) -> None:
    rows = list(csv.DictReader(io.StringIO(content(browser, "curves.csv").decode())))
    assert len(rows) == 4 * 361
    drawn = browser.run("page.drawn()[2].rows[80]")
    row = rows[2 * 361 + 80]
    assert row["loss"] == "arcface"
    assert [float(value) for value in list(row.values())[1:]] == drawn
    sphere = list(csv.DictReader(io.StringIO(content(browser, "sphere.csv").decode())))
    assert [row["kind"] for row in sphere] == ["prototype"] * 8 + ["sample"] * 40
    for name, size in (("curves", (920, 704)), ("sphere", (640, 640))):
        root = ET.fromstring(content(browser, f"{name}.svg"))
        assert (float(root.get("width", 0)), float(root.get("height", 0))) == size
        assert "losses=ampface" in root.findtext(f"{{{SVG}}}desc", "")
        png = content(browser, f"{name}.png")
        assert png.startswith(b"\x89PNG")
        assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (2 * size[0], 2 * size[1])
    text = content(browser, "curves.svg").decode()
    assert "var(--" not in text
    assert "ArcFace, m₂ = 0.6, ends at 39.73°" in text


def test_a_button_downloads(browser: Browser, tmp_path: Path) -> None:
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    wanted = [tmp_path / f"hypersphere-{name}" for name in ("curves.csv", "curves.png", "sphere.svg")]
    for path in wanted:
        name = path.name.removeprefix("hypersphere-")
        browser.run(f"document.querySelector('[data-export=\"{name}\"]').click()")
        end = time.monotonic() + 20
        while not (path.exists() and path.stat().st_size) and time.monotonic() < end:
            time.sleep(0.05)
    assert [path.stat().st_size > 100 for path in wanted] == [True] * 3


def test_every_loss_can_be_drawn_at_once(browser: Browser) -> None:
    browser.run("page.state.change('losses', settings.NAMES); page.state.change('relative', 1)")
    settle(browser)
    assert browser.run("document.querySelectorAll('#table tbody tr').length") == 16
    assert browser.run("page.drawn().every(({ rows }) => rows.flat().every(Number.isFinite))")
    assert "NaN" not in browser.run("document.querySelector('main').innerHTML")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, address: str, width: int) -> None:
    browser.screen(width, 844, mobile=width < 500)
    browser.open("about:blank")
    browser.open(address)
    assert browser.run("document.documentElement.scrollWidth") <= width
    if width < 500:
        left, right = browser.run(
            "(({ left, right }) => [left, right])(document.querySelector('#charts svg').getBoundingClientRect())"
        )
        assert 0 <= left < right <= width


def test_a_dark_room(browser: Browser) -> None:
    colors = []
    for dark in (False, True):
        browser.screen(1280, 900, dark=dark)
        settle(browser)
        colors.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert colors == ["rgb(255, 255, 255)", "rgb(21, 24, 28)"]
