"""The report page: escaped, valid, complete in itself, written whole."""

import base64
import re
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import decode
from hypersphere.plots import ImagePair, Page, interval, new_figure, percent, points
from tests.browser import Browser
from tests.plots.reader import Reader

EVIL = '<script>alert("1")</script> & "quotes" \'single\''


def full_page() -> Page:
    page = Page(EVIL, EVIL)
    page.origin({EVIL: EVIL, "command": ""})
    page.heading(EVIL)
    page.heading("second")
    page.heading("third")
    page.text(EVIL, "second paragraph")
    page.code(EVIL)
    page.options({EVIL: EVIL, "seed": 3})
    page.table(["name", EVIL], [[EVIL, 1.5], [f"{EVIL}\n{EVIL}", EVIL], EVIL], EVIL, best=1)
    page.metrics(
        {
            EVIL: {"value": 0.5, "low": 0.4, "high": 0.6, "n": 1000},
            "tar@far=1e-6": {"value": None, "low": None, "high": None, "n": 3000},
            "eer": {"value": 0.123},
        },
        EVIL,
    )
    figures = {EVIL: new_figure(2, 2), "other": new_figure(2, 2)}
    page.figure(figures, EVIL, columns=2)
    page.figure(figures, EVIL, columns=4, vector=False)
    image = np.full((4, 5, 3), 7, np.uint8)
    page.image(image, EVIL, EVIL)
    page.pairs([ImagePair(image, image[..., :1], EVIL, f"{EVIL}\nb_c")], EVIL)
    page.pairs([], "none")
    page.sheet([(image, EVIL)], EVIL, quality=80)
    page.sheet([(image, EVIL), (image[..., :1], "b_c")], EVIL, large=True)
    return page


def test_the_page_is_valid_and_all_text_is_text() -> None:
    html = full_page().html()
    reader = Reader(html)
    assert html.startswith("<!doctype html>")
    assert "script" not in reader.tags
    assert reader.words.count(EVIL) == 30
    assert [value for tag, name, value in reader.attributes if name == "alt" and value].count(EVIL) == 3


def test_nothing_is_fetched() -> None:
    reader = Reader(full_page().html())
    assert not {"link", "script", "iframe", "object"} & set(reader.tags)
    sections = {f"#{value}" for _, name, value in reader.attributes if name == "id"}
    links = {value for _, name, value in reader.attributes if name == "href"}
    assert links == sections
    for _, name, value in reader.attributes:
        assert not name.startswith("on")
        if name in ("src", "srcset", "data"):
            assert re.match(r"data:image/(png|jpeg|svg\+xml);base64,", value)
    style = re.search(r"<style>(.*?)</style>", full_page().html(), flags=re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert ("meta", "content", "default-src 'none'; img-src data:; style-src 'unsafe-inline'") in reader.attributes


def test_images_are_inside_pixel_by_pixel() -> None:
    page = Page("x")
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    page.image(image, "alt", "caption")
    source = next(value for tag, name, value in Reader(page.html()).attributes if (tag, name) == ("img", "src"))
    np.testing.assert_array_equal(decode(base64.b64decode(source.partition(",")[2])), image)


def test_metrics_say_what_cannot_be_measured() -> None:
    words = Reader(full_page().html()).words
    assert "50.00 %40.00 % to 60.00 %1,000" in words
    assert "not measurable with n=3,000" in words
    assert "12.30 %" in words


def test_words_for_numbers() -> None:
    assert percent(0.98765) == "98.77 %"
    assert percent(0.98765, 0) == "99 %"
    assert percent(None) == "–"
    assert [percent(share) for share in (1, 0.99999, 0.999951, 0.9999, 0, 1e-5)] == [
        *("100.00 %", "99.999 %", "99.995 %", "99.99 %", "0.00 %", "0.001 %")
    ]
    assert interval(0.5, 0.99999999, 1) == "[50.0, 99.999999]"
    assert points(0.0123, -0.001, 0.02) == "+1.23 [-0.10, +2.00]"


def test_short_pages_have_no_contents() -> None:
    page = Page("x")
    page.text("above")
    page.heading("a")
    page.heading("b")
    assert "<nav" not in page.html()
    page.heading("c")
    html = page.html()
    assert html.index("above") < html.index("<nav") < html.index("<h2")


def test_a_table_marks_its_best_row_and_keeps_intervals_below_values() -> None:
    page = Page("x")
    page.table(["name", "value"], [["a", "1 %\n[0, 2]"], ["b", "2 %\n[1, 3]"], "none of c"], best=1)
    html = page.html()
    assert "<tr><td>a</td><td>1 %<small>[0, 2]</small></td></tr>" in html
    assert '<tr class="best"><td>b<span class="badge">best</span></td><td>2 %<small>[1, 3]</small></td></tr>' in html
    assert '<td class="whole" colspan="2"><div>none of c</div></td>' in html
    page.table(["name", "command"], [["a", f"run {'--option ' * 9}"]], text=True)
    assert '<table class="named text">' in page.html()
    assert "<span>run</span> <span>--option</span>" in page.html(), "a long cell is broken between words"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_only_tables_scroll_sideways(chromium: Browser, tmp_path: Path, width: int) -> None:
    page = full_page()
    page.origin({"command": f"hypersphere evaluate pairs --images {'very-long-folder/' * 12}"})
    page.table(["name", *"abcdef"], [["row", *["99.99 %\n[99.95, 99.99]"] * 6], "Not measurable " * 9], best=0)
    path = page.save(tmp_path / "page.html")
    for dark in (False, True):
        chromium.screen(width, 844, mobile=width < 500, dark=dark)
        chromium.open(path.as_uri())
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.run("getComputedStyle(document.body).backgroundColor") == (
            "rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)"
        )
    lines = "[...document.querySelectorAll('td small')].map((node) => node.getClientRects().length)"
    assert set(chromium.run(lines)) == {1}, "an interval is never broken"
    scrolls = "[...document.querySelectorAll('.wide')].some((box) => box.scrollWidth > box.clientWidth + 1)"
    assert chromium.run(scrolls) == (width < 500)
    text = chromium.run("document.querySelector('td.whole:last-child div').getBoundingClientRect().right")
    assert text <= width
    assert chromium.complaints == []


def test_the_same_page_is_the_same_bytes() -> None:
    assert full_page().html() == full_page().html()


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row \['a'\] has 1 cells; the header has 2"):
        Page("x").table(["a", "b"], [["a"]])


def test_saving_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "deep" / "report.html"
    page = Page("first")
    assert page.save(target) == target
    assert "first" in target.read_text(encoding="utf-8")
    monkeypatch.setattr(page, "html", lambda: "\ud800")
    with pytest.raises(UnicodeEncodeError):
        page.save(target)
    assert "first" in target.read_text(encoding="utf-8")
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]
