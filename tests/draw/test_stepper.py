"""The stepper shows the pass that the engine makes, and leaves no trace of having looked."""

import base64
import json
import math
import re
import subprocess
import sys
import time
import weakref
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from browser import chromium

import lucid_mini as lm
from lucid_mini.autograd.dump import stats
from lucid_mini.draw.figure import PictureError
from lucid_mini.draw.stepper import stepper
from lucid_mini.draw.stepper_art import plan, states

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'$x$"


def diamond():
    """Relu feeds two ops, one of which hands on late: a node that must wait for its second half."""
    x, w = lm.ones(4, 2), lm.ones(2, 3, requires_grad=True)
    h = (x @ w).relu()
    left, right = h.exp(), h * 2.0
    loss = (left + right).sum()
    return loss, {"w": w, "h": h, "loss": loss}


def chain_of_forty():
    """13 times multiply, tanh, add, and a sum: a graph of 40 nodes."""
    h = lm.ones(8, 8)
    names = {}
    for layer in range(13):
        w, b = lm.ones(8, 8, requires_grad=True), lm.zeros(8, requires_grad=True)
        names[f"w{layer}"], names[f"b{layer}"] = w, b
        h = (h * w).tanh() + b
    return h.sum(), names


def film_of(loss, names=None, gradient=None):
    return stepper(loss, gradient, names=names).film()


def test_a_frame_for_the_start_one_per_node_and_one_for_the_leaves():
    loss, names = diamond()
    film = film_of(loss, names)
    assert [frame.kind for frame in film.frames] == ["start", *["run"] * 6, "end"]
    assert [frame.node for frame in film.frames[1:-1]] == [
        "sum#6", "add#5", "mul#4", "exp#3", "relu#2", "matmul#1",
    ]  # fmt: skip
    assert film.leaves == ("w",)
    assert film.title == "Backward from loss, step by step"


def test_the_order_and_the_ready_queue_are_those_of_the_engine():
    loss, names = diamond()
    frames = film_of(loss, names).frames[1:-1]
    told = list(lm.autograd.steps(loss))
    assert [frame.node for frame in frames] == [step.node.label for step in told]
    assert [frame.ready for frame in frames] == [
        tuple((label, step.counts[label]) for label in step.ready) for step in told
    ]


def test_a_node_with_half_of_its_gradient_waits_and_the_queue_says_for_how_many():
    loss, names = diamond()
    film = film_of(loss, names)
    assert film.frames[2].ready == (("mul#4", 0), ("exp#3", 0))
    assert film.frames[2].waits == {"mul#4": 0, "exp#3": 0, "relu#2": 2, "matmul#1": 1}
    assert film.frames[3].ready == (("exp#3", 0), ("relu#2", 1))
    assert film.frames[4].ready == (("relu#2", 0),)


def test_what_a_node_lets_go_of_is_what_a_backward_without_retain_releases():
    loss, names = diamond()
    frames = film_of(loss, names).frames[1:-1]
    assert [frame.released for frame in frames] == [
        step.released for step in lm.autograd.steps(loss)
    ]


def test_a_buffer_is_freed_by_the_last_node_that_has_saved_it():
    x = lm.ones(4, requires_grad=True)
    h = x.exp()
    film = film_of((h * h.tanh()).sum(), {"x": x})
    by_node = {frame.node: frame for frame in film.frames}
    assert [(r.name, r.nbytes, r.fate) for r in by_node["mul#3"].releases] == [
        ("a", 32, "stays: exp#1 has saved it, too"),
        ("b", 32, "stays: tanh#2 has saved it, too"),
    ]
    assert by_node["mul#3"].freed == 0
    assert [r.fate for r in by_node["exp#1"].releases] == ["freed"]
    assert by_node["exp#1"].freed == 32


def test_a_leaf_that_a_node_has_saved_is_not_freed_and_not_counted():
    w = lm.ones(3, requires_grad=True)
    film = film_of((w * w).sum(), {"w": w})
    assert [r.fate for r in film.frames[2].releases] == ["stays: it is the leaf w"]
    assert [frame.saved for frame in film.frames] == [0, 0, 0, 0]


def test_the_bytes_add_up_to_those_of_the_graph():
    loss, names = diamond()
    film = film_of(loss, names)
    assert film.frames[0].saved == stats(loss)["saved_bytes"] == 264
    assert sum(frame.freed for frame in film.frames) == film.frames[0].saved
    assert film.frames[-1].saved == 0
    for before, after in pairwise(film.frames):
        assert before.saved - after.saved == after.freed


def test_gradients_in_flight_have_the_shapes_and_bytes_of_what_they_belong_to():
    loss, names = diamond()
    film = film_of(loss, names)
    assert [(g.at, g.shape, g.nbytes) for g in film.frames[0].flight] == [("sum#6", "()", 8)]
    assert [(g.at, g.shape, g.nbytes) for g in film.frames[3].flight] == [
        ("exp#3", "(4, 3)", 96), ("relu#2", "(4, 3)", 96),
    ]  # fmt: skip
    assert film.frames[4].gradients == 96, "two gradients for relu are one sum"
    assert [(g.at, g.shape) for g in film.frames[-1].flight] == [("w", "(2, 3)")]


def test_the_peak_is_the_highest_sum_of_saved_bytes_and_gradients():
    loss, names = diamond()
    film = film_of(loss, names)
    totals = [frame.saved + frame.gradients for frame in film.frames]
    assert film.peak == (max(totals), totals.index(max(totals)))


def test_a_node_with_two_outputs_waits_for_both_and_says_how_many_it_has():
    x = lm.ones(6, requires_grad=True)
    first, second = x.chunk(2)
    film = film_of((first.exp() + second).sum(), {"x": x})
    split = next(frame for frame in film.frames if frame.node.startswith(("chunk", "split")))
    assert [g.shape for g in split.grads_in] == ["(3,)", "(3,)"]
    page = data_of(stepper((first.exp() + second).sum()))
    pills = [row[1] for frame in page["frames"] for row in frame["flight"]]
    assert "1 of 2" in pills
    assert "2 of 2" in pills


def test_a_gradient_that_nobody_wants_goes_nowhere():
    x, c = lm.ones(3, requires_grad=True), lm.ones(3)
    film = film_of((x * c).sum(), {"x": x})
    times = film.frames[2]
    assert [g and g.at for g in times.grads_out] == ["x", None]
    assert [film.edges[at] for at in times.carried] == [("mul#1", "x")]


def test_a_gradient_can_be_given_and_must_have_the_shape():
    x = lm.ones(3, requires_grad=True)
    film = film_of(x * 2.0, gradient=lm.ones(3))
    assert film.frames[0].flight[0].shape == "(3,)"
    with pytest.raises(ValueError, match="shape"):
        stepper(x * 2.0, lm.ones(2))
    with pytest.raises(lm.errors.NonScalarBackwardError):
        stepper(x * 2.0)


def test_a_leaf_alone_gets_its_gradient_at_once():
    film = film_of(lm.ones((), requires_grad=True))
    assert [frame.kind for frame in film.frames] == ["start", "end"]
    assert film.words(1) == "The pass is over. All at once, leaf#1 gets its .grad."


def test_what_has_no_history_is_refused_as_backward_refuses_it():
    with pytest.raises(lm.errors.NoGradientError):
        stepper(lm.ones(()))
    with pytest.raises(TypeError):
        stepper(3)


# ---------------------------------------------------------------- nothing is changed


def test_no_grad_is_written_and_one_that_was_there_stays_the_same_object():
    loss, names = diamond()
    w = names["w"]
    stepper(loss)
    assert w.grad is None
    loss.backward(retain_graph=True)
    before, values = w.grad, w.grad.numpy().copy()
    stepper(loss)
    assert w.grad is before
    assert (w.grad.numpy() == values).all()


def test_a_leaf_alone_keeps_its_grad_too():
    x = lm.ones((), requires_grad=True)
    stepper(x)
    assert x.grad is None


def test_the_graph_is_intact_afterwards():
    loss, names = diamond()
    stepper(loss)
    stepper(loss)
    assert not loss.grad_fn.released
    loss.backward()
    assert names["w"].grad.shape == (2, 3)
    with pytest.raises(lm.errors.GraphFreedError):
        stepper(loss)


@pytest.mark.parametrize("recording", [True, False])
def test_the_mode_is_what_it_was(recording):
    loss, _ = diamond()
    with lm.set_grad_enabled(recording):
        stepper(loss)
        assert lm.is_grad_enabled() is recording
    assert lm.is_grad_enabled()


def test_the_mode_is_what_it_was_when_a_rule_fails():
    def fail(ctx, grad):
        raise ZeroDivisionError

    op = lm.autograd.autograd_function(lambda ctx, x: x * 1.0, fail, "Fails")
    x = lm.ones(3, requires_grad=True)
    loss = op(x).sum()
    with pytest.raises(ZeroDivisionError):
        stepper(loss)
    assert lm.is_grad_enabled()
    assert x.grad is None


def test_hooks_after_the_writes_are_not_called():
    x = lm.ones(3, requires_grad=True)
    called = []
    x.register_post_accumulate_grad_hook(lambda leaf: called.append(leaf.shape))
    stepper((x * 2.0).sum())
    assert called == []


def test_the_figure_keeps_nothing_alive(no_gc):
    loss, names = diamond()
    watched = [weakref.ref(tensor) for tensor in names.values()]
    figure = stepper(loss, names=names)
    repr(figure)
    del loss
    names.clear()
    assert [reference() for reference in watched] == [None] * 3


# ---------------------------------------------------------------- text and picture


def test_the_text_has_a_line_per_step():
    loss, names = diamond()
    lines = repr(stepper(loss, names=names)).split("\n")
    assert lines[0] == "Backward from loss, step by step"
    assert [re.split(r" {2,}", line.strip()) for line in lines[2:11]] == [
        ["step", "node", "gradients in → out", "freed", "saved", "gradients", "ready (to come)"],
        ["0", "start", "→ sum#6 ()", "0 B", "264 B", "8 B", "sum#6 (0)"],
        ["1", "sum#6", "() → add#5 (4, 3)", "0 B", "264 B", "96 B", "add#5 (0)"],
        ["2", "add#5", "(4, 3) → exp#3 (4, 3), mul#4 (4, 3)", "0 B", "264 B", "192 B",
         "mul#4 (0), exp#3 (0)"],
        ["3", "mul#4", "(4, 3) → relu#2 (4, 3)", "8 B", "256 B", "192 B", "exp#3 (0), relu#2 (1)"],
        ["4", "exp#3", "(4, 3) → relu#2 (4, 3)", "96 B", "160 B", "96 B", "relu#2 (0)"],
        ["5", "relu#2", "(4, 3) → matmul#1 (4, 3)", "96 B", "64 B", "96 B", "matmul#1 (0)"],
        ["6", "matmul#1", "(4, 3) → w (2, 3)", "64 B", "0 B", "48 B"],
        ["7", "end", ".grad of w (2, 3)", "0 B", "0 B", "48 B"],
    ]  # fmt: skip
    assert " ".join(lines[12:]) == (
        "6 nodes, 1 leaf; saved at the start 264 B, freed on the way 264 B; "
        "most at once 456 B (saved and gradients) at step 2"
    )


def test_each_element_has_one_state_per_frame():
    loss, names = diamond()
    film = film_of(loss, names)
    assert film.nodes == ("matmul#1", "relu#2", "exp#3", "mul#4", "add#5", "sum#6")
    assert [states(film, at) for at in range(len(film.frames))] == [
        "wwwwwwr",
        "wwwwwrx",
        "wwwrrxd",
        "wwgrxdd",
        "wwrxddd",
        "wrxdddd",
        "hxddddd",
        "fdddddd",
    ]


def test_the_same_pass_gives_the_same_bytes():
    pages = []
    for _ in range(2):
        lm.reset_names()
        loss, names = diamond()
        figure = stepper(loss, names=names)
        pages.append((figure.html(), figure._page(), figure.svg(), figure.text()))
    assert pages[0] == pages[1]


def test_the_bytes_do_not_depend_on_the_hash_seed():
    code = (
        "import lucid_mini as lm, hashlib\n"
        "x = lm.ones(3, requires_grad=True); y = lm.ones(3, requires_grad=True)\n"
        "f = lm.draw.stepper((x.exp() * y + x).sum(), names={'x': x, 'y': y})\n"
        "print(hashlib.sha256((f._page() + f.svg() + f.text()).encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_forty_nodes_fit_into_300_kb_page_and_notebook_alike():
    loss, names = chain_of_forty()
    figure = stepper(loss, names=names)
    assert len(figure.film().nodes) == 40
    assert len(figure._page().encode()) < 300_000
    assert len(figure.html().encode()) < 300_000


def test_a_graph_too_large_to_read_has_a_text_and_says_why_it_has_no_picture():
    h = lm.ones(2, requires_grad=True)
    for _ in range(160):
        h = h.tanh()
    figure = stepper(h.sum())
    assert "tanh#160" in figure.text()
    with pytest.raises(PictureError, match="161 nodes"):
        figure.svg()
    with pytest.raises(PictureError):
        figure._page()
    assert "161 nodes" in figure._repr_mimebundle_()["text/plain"]


def test_it_can_be_saved_as_page_strip_and_text(tmp_path):
    loss, names = diamond()
    figure = stepper(loss, names=names)
    page = figure.save(tmp_path / "steps.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    ET.fromstring(figure.save(tmp_path / "steps.svg").read_text(encoding="utf-8"))
    assert figure.save(tmp_path / "steps.txt").read_text(encoding="utf-8") == f"{figure}\n"
    with pytest.raises(PictureError):
        figure.save(tmp_path / "steps.png")


def data_of(figure):
    source = re.search(r'id="data">(.*?)</script>', figure._page(), re.DOTALL)[1]
    return json.loads(source)


def test_the_script_is_given_what_the_film_has():
    loss, names = diamond()
    figure = stepper(loss, names=names)
    film, data = figure.film(), data_of(figure)
    assert data["names"] == ["w", *film.nodes]
    assert data["leaves"] == 1
    assert [frame["words"] for frame in data["frames"]] == [
        film.words(at) for at in range(len(film.frames))
    ]
    counts = {}
    for frame, told in zip(film.frames, data["frames"], strict=True):
        counts |= {data["names"][key]: count for key, count in told["waits"]}
        assert {name: counts[name] for name in frame.waits} == frame.waits
        assert told["run"] == (data["names"].index(frame.node) if frame.node else -1)


def test_nothing_is_fetched_and_nothing_is_remembered_between_visits():
    loss, names = diamond()
    figure = stepper(loss, names=names)
    for source in (figure._page(), figure.svg()):
        without = source.replace("http://www.w3.org/2000/svg", "")
        assert "http" not in without
        assert not re.search(r"@import|url\((?!#)|src=|<link|fetch\(|localStorage", without)


def test_a_hostile_name_stays_text_everywhere():
    x = lm.ones(2, requires_grad=True)
    y = (x * 2.0).sum()
    figure = stepper(y, names={HOSTILE: x, "<b>": y})
    for source in (figure._page(), figure.html(), figure.svg()):
        assert "<img src=x" not in source
        assert "</script><img" not in source
        assert "<b>:" not in source
    assert HOSTILE in figure.film().leaves
    ET.fromstring(figure.svg())
    name = data_of(figure)["names"][0]
    assert "…" in name, "long names are shortened"
    assert name.startswith("</script>")


def test_a_name_with_a_line_break_forges_no_line():
    x = lm.ones(2, requires_grad=True)
    figure = stepper((x * 2.0).sum(), names={"x\n   9  forged": x})
    assert not any("forged" in line.split("  ")[0] for line in figure.text().split("\n"))
    assert [line[:4] for line in figure.text().split("\n")[3:7]] == [f"   {at}" for at in range(4)]


def test_the_svg_has_title_and_text_and_a_cell_per_frame():
    loss, names = diamond()
    figure = stepper(loss, names=names)
    root = ET.fromstring(figure.svg())
    assert root.find(f"{SVG}title").text == "Backward from loss, step by step"
    assert root.find(f"{SVG}desc").text == figure.text()
    assert len(root.findall(f"{SVG}svg")) == 8
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert "step 3 of 7: mul#4" in words
    assert "out relu#2 (4, 3)" in words
    assert "ready exp#3 (0), relu#2 (1)" in words


def pictures_of(figure):
    """The small pictures of a filmstrip: what each shows of the graph, and at which scale."""
    for picture in ET.fromstring(figure.svg()).findall(f"{SVG}svg"):
        *_, width, height = map(float, picture.get("viewBox").split())
        yield width, height, float(picture.get("width")) / width


def test_every_small_picture_of_a_small_graph_shows_all_of_it():
    x = lm.tensor(2.0, requires_grad=True)
    a = x.exp()
    figure = stepper(a * a.sin() + a)
    whole = plan(figure.film()).layered
    pictures = list(pictures_of(figure))
    assert len(pictures) == 6
    for width, height, _ in pictures:
        assert width >= whole.width
        assert height >= whole.height


def test_names_in_the_filmstrip_are_read_at_the_width_of_a_notebook():
    """12 pixels, scaled by the small picture; 10.67 pixels are 8 points."""
    figure = stepper(chain_of_forty()[0])
    *steps, _ = pictures_of(figure)
    assert min(12 * scale for _, _, scale in steps) >= 10.67
    assert float(ET.fromstring(figure.svg()).get("width")) <= 900


def test_an_untrusted_notebook_has_the_filmstrip_as_an_image():
    loss, names = diamond()
    figure = stepper(loss, names=names)
    html = figure._repr_mimebundle_()["text/html"]
    # What a sanitizer leaves: neither frames nor styles nor scripts.
    kept = re.sub(r"<iframe.*?</iframe>|<style>.*?</style>", "", html, flags=re.DOTALL)
    assert "<script" not in kept
    image = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', kept)[1]
    assert base64.b64decode(image).decode() == figure.svg()
    assert "6 nodes, 1 leaf" in re.search(r'alt="([^"]+)"', kept)[1]


def test_boxes_of_the_graph_do_not_overlap_and_values_flow_down():
    loss, names = chain_of_forty()
    film = film_of(loss, names)
    layered = plan(film).layered
    boxes = list(layered.boxes.values())
    for at, one in enumerate(boxes):
        assert one.x >= 0
        assert one.x + one.width <= layered.width
        for other in boxes[at + 1 :]:
            beside = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert beside or one.y != other.y
    for user, maker in film.edges:
        assert layered.boxes[maker].y < layered.boxes[user].y


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def opened(browser, tmp_path):
    loss, names = diamond()
    path = stepper(loss, names={**names, HOSTILE: names["w"]}).save(tmp_path / "steps.html")
    browser.get(path.as_uri())
    yield browser
    assert browser.get_log("browser") == [], "errors, and requests that failed"


def run(browser, script):
    return browser.execute_script(script)


def press(browser, key):
    run(browser, f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")


def status(browser):
    return run(browser, "return document.getElementById('status').textContent")


def classes(browser):
    found = run(
        browser,
        "return [...document.querySelectorAll('#graph .n')].map(n => n.getAttribute('class'))",
    )
    return "".join(name.split()[2] for name in found)


def test_the_slider_the_buttons_and_the_keys_step_through_the_pass(opened):
    assert status(opened).startswith("Step 0 of 7. Nothing has run.")
    run(opened, "document.getElementById('next').click()")
    words = "sum#6 runs: takes (), hands on add#5 (4, 3). Frees nothing."
    assert status(opened) == f"Step 1 of 7. {words}"
    press(opened, "ArrowRight")
    press(opened, "ArrowRight")
    assert classes(opened) == "wwgrxdd"
    value = "return document.getElementById('slider').getAttribute('aria-valuetext')"
    assert run(opened, value) == "step 3 of 7: mul#4"
    press(opened, "ArrowLeft")
    assert run(opened, value) == "step 2 of 7: add#5"
    run(
        opened,
        "const s = document.getElementById('slider'); s.value = 7;"
        "s.dispatchEvent(new Event('input'))",
    )
    assert status(opened) == "Step 7 of 7. The pass is over. All at once, w gets its .grad."
    press(opened, "Home")
    assert classes(opened) == "wwwwwwr"


def test_the_cursor_in_the_curve_covers_its_step_at_the_start_and_at_the_end(opened):
    edges = (
        "const box = id => document.querySelector(id).getBoundingClientRect();"
        "const axis = box('#curve .axis'), cursor = box('#cursor');"
        "return [cursor.left - axis.left, axis.right - cursor.right]"
    )
    assert abs(run(opened, edges)[0]) < 2
    press(opened, "End")
    assert abs(run(opened, edges)[1]) < 2


def test_every_letter_of_the_page_has_8_points(opened):
    smallest = run(
        opened,
        "const texts = [...document.querySelectorAll('.live text, .live li, .live dd')];"
        "return Math.min(...texts.filter(t => t.getClientRects().length).map(t => {"
        "  const size = parseFloat(getComputedStyle(t).fontSize);"
        "  return t.getScreenCTM ? size * t.getScreenCTM().a : size; }))",
    )
    assert smallest >= 10.6  # pixels: 8 points


def test_play_goes_on_by_itself_and_stops_when_asked(opened):
    run(opened, "document.getElementById('play').click()")
    deadline = time.monotonic() + 10
    while status(opened).startswith("Step 0") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert status(opened).startswith("Step 1")
    run(opened, "document.getElementById('play').click()")
    assert run(opened, "return document.getElementById('play').textContent") == "Play"


def test_a_prediction_is_judged_and_a_right_one_reveals_the_step(opened):
    press(opened, "ArrowRight")
    press(opened, "ArrowRight")
    run(opened, "document.getElementById('predict').click()")
    verdict = "return document.getElementById('verdict').textContent"
    hidden = "return getComputedStyle(document.getElementById('queue')).display"
    assert "Which node runs next?" in run(opened, verdict)
    assert run(opened, hidden) == "none"

    def guess(name):
        run(
            opened,
            "const names = JSON.parse(document.getElementById('data').textContent).names;"
            "document.querySelectorAll('#graph .n')"
            f"[names.indexOf('{name}')].dispatchEvent(new MouseEvent('click', {{bubbles: true}}))",
        )
        return run(opened, verdict)

    assert "w is a leaf and runs nothing" in guess("w")
    assert "sum#6 has run already" in guess("sum#6")
    assert "matmul#1 has no gradient yet" in guess("matmul#1")
    assert "exp#3 has its whole gradient, but another such node was made later" in guess("exp#3")
    assert guess("mul#4").startswith("Right.mul#4 runs")
    assert "0 of 1 at the first try" in run(opened, verdict)
    assert status(opened).startswith("Step 3")
    assert "relu#2 has only a part of its gradient: 1 delivery is still to come" in guess("relu#2")


def test_paper_and_readers_without_scripts_get_the_filmstrip(opened):
    shown = (
        "return ['.live', '.film'].map(s => getComputedStyle(document.querySelector(s)).display)"
    )
    assert run(opened, shown) == ["block", "none"]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert run(opened, shown) == ["none", "block"]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    run(opened, "document.documentElement.classList.remove('js')")
    assert run(opened, shown) == ["none", "block"]
    assert run(opened, "return document.querySelectorAll('.strip svg').length") == 8


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_the_page_in_light_and_dark(opened, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    ink, ground = run(
        opened,
        "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]",
    )
    light, dark = sorted(map(luminance, (ink, ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) > 7
    assert (luminance(ground) > 0.5) is (scheme == "light")


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else math.pow((p + 0.055) / 1.055, 2.4) for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_narrow_window_does_not_scroll_sideways(opened):
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        assert run(opened, "return document.documentElement.scrollWidth") <= 700
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
