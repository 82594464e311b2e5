"""The site in a browser, from a folder, without a network: what a reader sees and can use."""

import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

AXE = Path(__file__).parent / "axe" / "axe.min.js"
CHAPTER = "book/05_when_is_a_buffer_freed.html"
#: One page of each kind.
PAGES = (
    "index.html",
    "book/index.html",
    "book/01_what_must_backward_remember.html",  # formulae
    CHAPTER,
    "api/index.html",
    "api/tensor.html",
    "api/commands.html",
    "inside.html",
    "stepper.html",
    "differences.html",
    "decisions/0001-node-ctx-and-saved-slots.html",
    "genindex.html",
    "search.html",
    "_modules/lucid_mini/autograd/engine.html",
    "_static/stepper.html",
)


@pytest.fixture(autouse=True)
def _as_found(browser):
    """Every test starts in the light, in a wide window, and with an empty log."""
    look(browser, "light")
    browser.get("about:blank")
    browser.get_log("performance")
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def look(browser, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def narrow(browser, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def run(browser, script, *arguments):
    return browser.execute_script(script, *arguments)


def wait(browser, script, seconds=20):
    """What `script` gives, once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := run(browser, script)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found, f"not within {seconds} s: {script}"
    return found


def requested(browser):
    """Every address asked for since the log was last read."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_asked_of_another_machine(site, browser, page):
    browser.get((site / page).as_uri())
    wait(browser, "return document.readyState === 'complete'")
    time.sleep(0.3)  # what a page asks for when it stands
    addresses = requested(browser)
    assert (site / page).as_uri() in addresses, "the log sees requests"
    assert {urlsplit(a).scheme for a in addresses} <= {"file", "data", "blob", "about"}, addresses


@pytest.mark.parametrize("page", ["index.html", CHAPTER, "inside.html"])
def test_every_figure_has_a_size_and_words(site, browser, page):
    browser.get((site / page).as_uri())
    figures = wait(
        browser,
        "return [...document.querySelectorAll('.bd-content figure img')]"
        ".map(i => [i.naturalWidth, i.getBoundingClientRect().width, i.alt])",
    )
    assert all(natural > 0 and shown > 300 and alt for natural, shown, alt in figures), figures


def test_formulae_are_set(site, browser):
    browser.get((site / "book" / "01_what_must_backward_remember.html").as_uri())
    wait(browser, "return document.querySelectorAll('mjx-container svg path').length > 10")
    assert "\\(" not in run(browser, "return document.querySelector('article').innerText")


@pytest.mark.parametrize(
    "page",
    [*PAGES[:-1], "api/autograd.html", "api/modes.html", "book/08_who_is_holding_on.html"],
)
@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_goes_sideways(site, browser, page, width):
    narrow(browser, width)
    browser.get((site / page).as_uri())
    wait(browser, "return document.readyState === 'complete'")
    assert run(browser, "return document.documentElement.scrollWidth") <= width


def test_search_finds_a_word_and_leads_to_it(site, browser):
    browser.get((site / "search.html").as_uri() + "?q=retain_graph")
    wait(browser, found("[href^='book/06_why_not_backward_twice']"))
    browser.get((site / "search.html").as_uri() + "?q=why_alive")
    wait(browser, found("[href='api/lifetime.html#lucid_mini.lifetime.why_alive']"))


def found(link):
    return f'return document.querySelector("#search-results a{link}") !== null'


# ---------------------------------------------------------------- the stepper


@pytest.fixture
def stepper(site, browser):
    """The browser, inside the frame that the stepper's page has it in."""
    browser.get((site / "stepper.html").as_uri())
    wait(
        browser,
        "const frame = document.querySelector('iframe.stepper');"
        "return frame.contentDocument.querySelector('#slider') !== null",
    )
    browser.switch_to.frame(browser.find_element("css selector", "iframe.stepper"))
    yield browser
    browser.switch_to.default_content()


def step(browser):
    return run(browser, "return document.getElementById('slider').getAttribute('aria-valuetext')")


def test_slider_buttons_and_keys_go_through_the_pass(stepper):
    from selenium.webdriver.common.keys import Keys

    assert step(stepper).startswith("step 0 of 10")
    stepper.find_element("id", "next").click()
    assert step(stepper) == "step 1 of 10: sum#9"
    slider = stepper.find_element("id", "slider")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert step(stepper) == "step 2 of 10: exp#8"
    slider.send_keys(Keys.END)
    assert step(stepper).startswith("step 10 of 10")
    stepper.find_element("id", "previous").click()
    assert step(stepper) == "step 9 of 10: matmul#1"
    assert "matmul#1 runs" in stepper.find_element("id", "status").text


def test_the_stepper_takes_the_colours_of_the_page(stepper):
    def ground():
        return run(stepper, "return getComputedStyle(document.body).backgroundColor")

    assert ground() == "rgb(255, 255, 255)"
    stepper.find_element("id", "next").click()
    run(stepper, "parent.document.documentElement.dataset.theme = 'dark'")
    wait(stepper, "return getComputedStyle(document.body).backgroundColor === 'rgb(15, 22, 27)'")
    assert step(stepper) == "step 1 of 10: sum#9", "the step stays"
    run(stepper, "parent.document.documentElement.dataset.theme = 'light'")
    wait(stepper, "return getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")


def test_without_scripts_the_stepper_is_a_filmstrip(site, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get((site / "_static" / "stepper.html").as_uri())
        assert not browser.find_element("css selector", ".live").is_displayed()
        frames = browser.find_elements("css selector", ".strip > li")
        assert len(frames) == 11
        assert all(frame.is_displayed() for frame in frames)
        assert "tanh#2" in browser.find_element("css selector", ".strip").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


# ---------------------------------------------------------------- for everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "page", ["index.html", CHAPTER, "api/tensor.html", "inside.html", "stepper.html"]
)
def test_nobody_is_shut_out(site, browser, page, scheme):
    look(browser, scheme)
    browser.get((site / page).as_uri())
    wait(browser, "return document.readyState === 'complete'")
    assert run(browser, "return document.documentElement.dataset.theme") == scheme
    # Buttons fade into their colours, and half way there the contrast is another.
    wait(browser, "return document.getAnimations().every(a => a.playState === 'finished')")
    assert violations(browser) == []
    if page == "stepper.html":
        browser.switch_to.frame(browser.find_element("css selector", "iframe.stepper"))
        assert violations(browser) == []
        browser.switch_to.default_content()


def violations(browser):
    """What axe finds serious or critical: the rule, and where it is broken."""
    run(browser, AXE.read_text(encoding="utf-8"))
    browser.set_script_timeout(60)
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations'], iframes: false}).then("
        "r => done(r.violations), e => done([{id: String(e), impact: 'critical', nodes: []}]));"
    )
    return [
        (one["id"], [node["html"][:160] for node in one["nodes"][:5]], len(one["nodes"]))
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
