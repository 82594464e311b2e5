"""The stepper's page: one HTML file with everything in it. No network, no font, no library.

A name that a user wrote goes into the page as escaped text, or as JSON that a script writes with
`textContent`: never as markup.
"""

import json
from html import escape
from typing import Any

from lucid_mini.draw import style
from lucid_mini.draw.film import LONGEST_NAME, Film
from lucid_mini.draw.stepper_art import (
    MONO,
    SHORT_KEY,
    Plan,
    cell_lines,
    curve,
    graph,
    held,
    mini,
    mini_base,
    states,
)


def page(film: Film, plan: Plan, caption: str, text: str, *, embedded: bool = False) -> str:
    """The whole page. Embedded, it stands beside a filmstrip, and has none of its own."""
    last = len(film.frames) - 1
    first = escape(film.heading(0), quote=True)
    filmstrip = "" if embedded else _filmstrip(film, plan)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{escape(film.title)}</title>
<style>{_STYLE}</style>
</head><body{' class="embedded"' if embedded else ""}><main>
<h1>{escape(film.title)}</h1>
<p class="caption">{escape(caption)}</p>
<div class="live">
<div class="controls">
<button id="previous" type="button">&#9664; Previous</button>
<button id="play" type="button">Play</button>
<button id="next" type="button">Next &#9654;</button>
<input id="slider" type="range" min="0" max="{last}" value="0" step="1" aria-label="Step" \
aria-valuetext="{first}">
<button id="predict" type="button" aria-pressed="false">Predict</button>
</div>
<p id="status" role="status" aria-live="polite"><b id="heading"></b> <span id="words"></span></p>
<p id="verdict" role="status" aria-live="polite" hidden></p>
<div class="stage">
<div class="left"><div id="pane" role="region" aria-label="Graph" tabindex="0">
{graph(film, plan)}
</div>
{_key()}</div>
<div class="side">
<section><h2>Ready queue</h2><p class="hint">The first in line runs next: of those with a gradient,
the one made last.</p><ol id="queue"></ol>
<p class="hidden-queue">Hidden while you predict.</p></section>
<section><h2>This step</h2><dl id="step"></dl></section>
<section><h2>Memory</h2>
{curve(film)}
<p id="memory"></p></section>

<section><h2>Gradients in flight</h2><ul id="flight"></ul></section>
</div></div>
<details><summary>The same as text</summary><pre>{escape(text)}</pre></details>
<p class="hint">Freed: the last thing in the graph that kept it has let go; a variable of yours may
keep it longer. A leaf&#8217;s own memory is not counted. Nothing was released in fact: this shows
what <code>backward()</code> would do.</p>
</div>
{filmstrip}
</main>
<script type="application/json" id="data">{_data(film, plan)}</script>
<script>{_SCRIPT}</script>
</body></html>
"""


def _key() -> str:
    items = [f'<li><i class="k {letter}"></i>{words}</li>' for letter, words in SHORT_KEY.items()]
    items += [
        '<li><i class="k s"></i>saves something</li>',
        '<li><i class="k pill"></i>gradient, with its shape</li>',
        '<li><i class="k count">2</i>deliveries it still waits for</li>',
    ]
    return f'<ul class="key" aria-label="Key">{"".join(items)}</ul>'


def _filmstrip(film: Film, plan: Plan) -> str:
    cells = []
    for at in range(len(film.frames)):
        lines = "".join(f"<li>{escape(line)}</li>" for line in cell_lines(film, at))
        cells.append(
            f"<li>{mini(film, plan, at)}<b>{escape(film.heading(at))}</b><ul>{lines}</ul></li>"
        )
    items = "".join(f'<li><i class="k {letter}"></i>{w}</li>' for letter, w in SHORT_KEY.items())
    items += "<li>(n) deliveries still to come</li>"
    return (
        f'<section class="film" aria-label="All steps">'
        f'<ul class="key" aria-label="Key">{items}</ul>'
        f'<svg width="0" height="0" style="position:absolute" aria-hidden="true">'
        f'{mini_base(film, plan)}</svg><ol class="strip">{"".join(cells)}</ol></section>'
    )


# ---------------------------------------------------------------- data


def _data(film: Film, plan: Plan) -> str:
    """The film as JSON that no name can break out of."""
    number = {name: at for at, name in enumerate(plan.names)}
    counts: dict[str, int] = {}
    frames = []
    for at, frame in enumerate(film.frames):
        changed = [[number[k], v] for k, v in frame.waits.items() if counts.get(k) != v]
        counts.update(frame.waits)
        frames.append(
            {
                "kind": frame.kind,
                "heading": film.heading(at),
                "words": film.words(at),
                "run": number.get(frame.node, -1),
                "states": states(film, at),
                "waits": changed,
                "edges": frame.carried,
                "in": [gradient.shape for gradient in frame.grads_in if gradient],
                "out": [[number[g.at], g.shape, _bytes(g.nbytes)] for g in frame.grads_out if g],
                "queue": [[number[name], count] for name, count in frame.ready],
                "flight": [
                    [number[name], text, _bytes(nbytes)] for name, text, nbytes in held(film, frame)
                ],
                "releases": [
                    [style.shorten(r.name, LONGEST_NAME), r.shape, _bytes(r.nbytes), r.fate]
                    for r in frame.releases
                ],
                "amounts": [
                    _bytes(n) for n in (frame.freed, frame.saved, frame.gradients, frame.total)
                ],
            }
        )
    data: dict[str, Any] = {
        "names": [style.shorten(name, LONGEST_NAME) for name in plan.names],
        "leaves": len(film.leaves),
        "frames": frames,
    }
    source = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return source.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _bytes(count: int) -> str:
    return style.format_bytes(count)


# ---------------------------------------------------------------- look and behaviour

_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--ink:#10202b;--faint:#4a565e;--card:#f4f7f8;--rule:#c4cdd2;
--box:#fff;--use:#0072b2;--on:#fff;--saved:#56b4e9;--saved-line:#fff;--grad:#00805c;--grad-bg:#d9f2e8;
--grad-ink:#00402e;--edge:#5b6b75;--bad:#8a3800;--bad-line:#d55e00}
@media (prefers-color-scheme:dark){:root{--bg:#0f161b;--ink:#e8eff3;--faint:#aab7bf;--card:#182229;
--rule:#3c4b55;--box:#1d2931;--use:#2f9be0;--on:#04121c;--saved:#2f7fae;--saved-line:#a9dcf7;--grad:#34c79a;
--grad-bg:#0f3a2e;--grad-ink:#c9f5e4;--edge:#8a9aa4;--bad:#ffb784;--bad-line:#f08a3c}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,
-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:20px 20px 40px}
.embedded main{padding:4px 4px 12px}
h1{font-size:1.35rem;margin:0 0 2px}
h2{font-size:.95rem;margin:0 0 4px}
.caption,.hint{color:var(--faint);margin:0 0 12px;font-size:.87rem}
code,pre,ol,dl,#flight,svg text{font-family:MONO}
pre{overflow:auto;font-size:12px;background:var(--card);padding:10px;border:1px solid var(--rule)}
details{margin:14px 0}
summary{cursor:pointer}
.live{display:none}
.js .live{display:block}
.js .film{display:none}
.controls{display:flex;flex-wrap:wrap;gap:8px;align-items:center}
.controls button{font:inherit;min-height:38px;padding:5px 13px;color:var(--ink);
background:var(--card);border:1px solid var(--edge);border-radius:6px;cursor:pointer}
#play{min-width:76px}
.controls button:hover:enabled{border-color:var(--ink)}
.controls button:disabled{opacity:.45;cursor:default}
.controls button[aria-pressed=true]{background:var(--use);color:var(--on);border-color:var(--use)}
#slider{flex:1 1 200px;min-height:38px;accent-color:var(--use)}
:focus-visible{outline:3px solid var(--use);outline-offset:2px}
#status{margin:10px 0 8px;min-height:2.9em}
#verdict{margin:0 0 10px;padding:8px 12px;border-left:4px solid var(--use);background:var(--card)}
#verdict.wrong{border-color:var(--bad-line)}
#verdict b{margin-right:.4em}
.wrong b{color:var(--bad)}
.stage{display:grid;grid-template-columns:minmax(0,1.7fr) minmax(0,1fr);gap:16px;align-items:start}
#pane{overflow:auto;max-height:min(72vh,660px);border:1px solid var(--rule);border-radius:6px;
background:var(--bg);text-align:center;position:relative}
.embedded #pane{max-height:500px}
#graph{display:inline-block;vertical-align:top;max-width:none}
.side section{background:var(--card);border:1px solid var(--rule);border-radius:6px;
padding:10px 12px;margin-bottom:10px}
.side .hint{margin-bottom:6px;font-size:.8rem}
ol,ul,dl{margin:0;padding:0;list-style:none;font-size:13px}
#queue{min-height:5.6em}
#step{min-height:8.4em;align-content:start}
#queue li,#flight li{display:flex;justify-content:space-between;gap:10px;padding:2px 0}
#queue li span:last-child,#flight li span:last-child{color:var(--faint);text-align:right}
#queue li:first-child span:first-child{font-weight:700}
#queue li.none,#flight li.none{color:var(--faint)}
dl{display:grid;grid-template-columns:auto minmax(0,1fr);gap:2px 10px}
dt{color:var(--faint)}
dd{margin:0;overflow-wrap:anywhere}
#curve{width:100%;height:auto;display:block}
#memory{margin:4px 0 0;font-size:.85rem}
.hidden-queue{display:none;margin:0;min-height:8em;color:var(--faint)}
.predict #queue,.predict .c,.predict .side .hint{display:none}
.predict .hidden-queue{display:block}
.key{display:flex;flex-wrap:wrap;gap:3px 16px;margin:8px 0;color:var(--faint);font-family:inherit}
.key li{display:flex;align-items:center;gap:6px}
.k{display:inline-block;width:20px;height:13px;border:1px solid var(--ink);background:var(--box);
font:700 11px/11px MONO;text-align:center}
.k.g{background:var(--grad-bg);border:1px dashed var(--grad)}
.k.r{background:var(--grad-bg);border:2px solid var(--grad)}
.k.x{background:var(--use)}
.k.d{border:1px dashed var(--edge)}
.k.s{background:repeating-linear-gradient(135deg,var(--saved) 0 3px,var(--saved-line) 3px 5px)}
.k.pill{background:var(--grad-bg);border-color:var(--grad);border-radius:7px}
.k.count{width:15px;height:15px;line-height:13px;border-radius:50%;color:var(--ink);font-style:normal}
svg text{fill:var(--ink)}
.n text{text-anchor:middle}
.l{font-size:12px;font-weight:600}
.m{font-size:11px}
#curve .m{font-size:14px}
svg .m{fill:var(--faint)}
.e{fill:none;stroke:var(--edge);stroke-width:1.2;marker-end:url(#down)}
.e.now{stroke:var(--grad);stroke-width:3;marker-end:none;marker-start:url(#up)}
.e.done{stroke-dasharray:3 3;opacity:.6}
.fw{fill:var(--edge)}.bw{fill:var(--grad)}
.hs{fill:var(--saved)}.hl{fill:var(--saved-line)}
.gs{fill:var(--grad-bg)}.gl{fill:var(--grad)}
.n{cursor:pointer}
.b{fill:var(--box);stroke:var(--ink);stroke-width:1}
.s{fill:url(#hatch)}
.p{display:none}
.p rect{fill:var(--grad-bg);stroke:var(--grad)}
.n .p text{fill:var(--grad-ink);font-size:11px}
.c circle{fill:var(--box);stroke:var(--ink)}
.c text{font-size:11px;font-weight:700}
.n.g .p,.n.r .p,.n.h .p,.n.f .p{display:inline}
.n.g .b{stroke:var(--grad);stroke-dasharray:4 2;fill:var(--grad-bg)}
.n.r .b{stroke:var(--grad);stroke-width:2.5;fill:var(--grad-bg)}
.predict .n.r .b{stroke-width:1;stroke-dasharray:4 2}
.n.h .b,.n.f .b{stroke:var(--grad);fill:var(--grad-bg)}
.n.f .b{stroke-width:2.5}
.n.x .b{fill:var(--use);stroke:var(--ink)}
.n.x>.l,.n.x>.m{fill:var(--on)}
.n.x .c,.n.d .c,.n.x .s,.n.d .s{display:none}
.n.d .b{stroke-dasharray:3 2;stroke:var(--edge);fill:var(--bg)}
.n.d>.l{fill:var(--faint);font-weight:400}
.n.d>.gone{text-decoration:line-through}
.n.miss .b{stroke:var(--bad-line);stroke-width:3;stroke-dasharray:none}
.n:focus-visible{outline:none}
.n:focus-visible .b{stroke:var(--use);stroke-width:4;stroke-dasharray:none}
.grid{stroke:var(--rule)}.axis{fill:none;stroke:var(--ink)}
.top{fill:none;stroke:var(--ink);stroke-width:1.6}
.split{fill:none;stroke:var(--ink);stroke-width:.8}
#cursor{fill:var(--use);fill-opacity:.22;stroke:var(--use);stroke-width:1.5}
.strip{display:grid;grid-template-columns:repeat(auto-fill,minmax(288px,1fr));gap:12px;margin-top:14px}
.strip>li{border:1px solid var(--rule);border-radius:6px;padding:8px;break-inside:avoid;
font-size:12px;overflow-wrap:anywhere}
.strip svg{display:block;margin:0 auto 6px;max-width:100%}
.strip ul{font-size:11px;color:var(--faint)}
.strip .w{fill:var(--box);stroke:var(--ink)}
.strip .g{fill:var(--grad-bg);stroke:var(--grad);stroke-dasharray:4 2}
.strip .r,.strip .h{fill:var(--grad-bg);stroke:var(--grad);stroke-width:2.5}
.strip .x{fill:var(--use);stroke:var(--ink)}
.strip .d{fill:var(--bg);stroke:var(--edge);stroke-dasharray:3 2}
.strip .f{fill:var(--grad-bg);stroke:var(--ink)}
.strip .now{fill:none;stroke:var(--grad);stroke-width:3}
.strip .on{fill:var(--on)}
#mini-e{marker-end:none}
@media (max-width:780px){main{padding:12px}.stage{grid-template-columns:minmax(0,1fr)}
#pane,.embedded #pane{max-height:52vh}.side{display:grid;gap:10px;
grid-template-columns:repeat(auto-fit,minmax(270px,1fr))}.side section{margin:0}}
@media print{.js .live{display:none}.js .film{display:block}main{max-width:none}}
""".replace("MONO", MONO).strip()

_SCRIPT = r"""
(function () {
"use strict";
var data = JSON.parse(document.getElementById("data").textContent);
var frames = data.frames, names = data.names, last = frames.length - 1;
var elements = document.querySelectorAll("#graph .n");
var edges = document.querySelectorAll("#graph .e");
var reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
var at = 0, timer = null, right = 0, asked = 0, missed = false;
var counts = [], known = {};
frames.forEach(function (frame) {
  frame.waits.forEach(function (pair) { known[pair[0]] = pair[1]; });
  counts.push(Object.assign({}, known));
});
function id(name) { return document.getElementById(name); }
var curveLeft = id("cursor").x.baseVal.value;  // where step 0 is drawn
function add(parent, tag, text, kind) {
  var child = document.createElement(tag);
  child.textContent = text;
  if (kind) { child.className = kind; }
  parent.appendChild(child);
  return child;
}
function fill(list, rows) {
  list.textContent = "";
  rows.forEach(function (row) {
    var item = add(list, "li", "", row.length === 1 ? "none" : "");
    row.forEach(function (cell) { add(item, "span", cell); });
  });
}
function deliveries(count) {
  return count === 0 ? "complete" : "waits for " + count + " more";
}
function wording(letter, key) {
  var count = counts[at][key];
  return {
    w: key < data.leaves ? "leaf" : "waits, no gradient yet",
    g: "has a gradient, waits for " + count + " more",
    r: "ready", x: "runs now", d: "has run", h: "leaf, holds its gradient", f: "leaf, .grad written"
  }[letter];
}
function show(next) {
  at = Math.max(0, Math.min(last, next));
  var frame = frames[at], pills = {}, done = {};
  frame.flight.forEach(function (row) { pills[row[0]] = row[1]; });
  elements.forEach(function (element, key) {
    var letter = frame.states[key];
    element.setAttribute("class", "n " + (key < data.leaves ? "leaf " : "node ") + letter);
    var predicting = document.body.classList.contains("predict");
    element.setAttribute("aria-label", names[key] +
      (predicting && "gr".indexOf(letter) >= 0 ? ", has a gradient" : ", " + wording(letter, key)));
    var pill = element.querySelector(".p text"), count = element.querySelector(".c");
    if (pill) { pill.textContent = pills[key] || ""; }
    if (count) {
      count.querySelector("text").textContent = counts[at][key];
      count.style.display = counts[at][key] === undefined ? "none" : "";
    }
  });
  for (var before = 0; before < at; before += 1) {
    frames[before].edges.forEach(function (edge) { done[edge] = true; });
  }
  edges.forEach(function (edge, key) {
    var now = frame.edges.indexOf(key) >= 0;
    edge.setAttribute("class", now ? "e now" : done[key] ? "e done" : "e");
  });
  id("slider").value = at;
  id("slider").setAttribute("aria-valuetext", frame.heading);
  id("heading").textContent = "Step " + at + " of " + last + ".";
  id("words").textContent = frame.words;
  fill(id("queue"), frame.queue.length ? frame.queue.map(function (row) {
    return [names[row[0]], deliveries(row[1])];
  }) : [["empty: every node has run"]]);
  fill(id("flight"), frame.flight.length ? frame.flight.map(function (row) {
    return [names[row[0]], row[1] + "  " + row[2]];
  }) : [["none"]]);
  detail(frame);
  id("memory").textContent = "saved " + frame.amounts[1] + " + gradients " + frame.amounts[2] +
    " = " + frame.amounts[3];
  var cursor = id("cursor"), wide = cursor.width.baseVal.value;
  cursor.setAttribute("x", curveLeft + at * wide);
  id("previous").disabled = at === 0;
  id("next").disabled = at === last;
  if (at === last) { stop(); }
  centre(frame);
}
function detail(frame) {
  var list = id("step");
  list.textContent = "";
  function row(term, text) { add(list, "dt", term); add(list, "dd", text); }
  if (frame.kind === "run") {
    row("runs", names[frame.run]);
    row("in", frame.in.join(", ") || "nothing");
    if (!frame.out.length) { row("out", "nothing"); }
    frame.out.forEach(function (grad, index) {
      row(index ? "" : "out", names[grad[0]] + " " + grad[1] + ", " + grad[2]);
    });
    row("freed", frame.amounts[0]);
    frame.releases.forEach(function (gone, index) {
      row(index ? "" : "lets go", gone[0] + " " + gone[1] + ", " + gone[2] +
        (gone[3] === "freed" ? "" : " (" + gone[3] + ")"));
    });
  } else {
    row(frame.kind === "start" ? "start" : "end", frame.words);
  }
}
function centre(frame) {
  var key = frame.run >= 0 ? frame.run : frame.flight.length ? frame.flight[0][0] : 0;
  var pane = id("pane"), outer = pane.getBoundingClientRect();
  var box = elements[key].getBoundingClientRect();
  pane.scrollTo({
    top: pane.scrollTop + box.top - outer.top - (outer.height - box.height) / 2,
    left: pane.scrollLeft + box.left - outer.left - (outer.width - box.width) / 2,
    behavior: reduced || timer ? "auto" : "smooth"
  });
}
function stop() {
  window.clearInterval(timer);
  timer = null;
  id("play").textContent = "Play";
}
function play() {
  if (timer) { stop(); return; }
  if (at === last) { show(0); }
  timer = window.setInterval(function () { show(at + 1); }, 1400);
  id("play").textContent = "Pause";
}
function go(next) {
  stop();
  say("", "", "");
  missed = false;
  show(next);
  if (document.body.classList.contains("predict")) { ask(); }
}
function say(word, text, kind) {
  var verdict = id("verdict");
  verdict.textContent = "";
  verdict.className = kind;
  verdict.hidden = !text;
  if (word) { add(verdict, "b", word); }
  verdict.appendChild(document.createTextNode(text));
}
function ask() {
  var done = at === last || frames[at + 1].kind === "end";
  say("", done ? "Every node has run: nothing is left to predict." :
    "Which node runs next? Click it, or go to it with Tab and press Enter.", "");
}
function guess(key) {
  var following = frames[at + 1], letter = frames[at].states[key], why;
  if (!following || following.kind === "end") {
    say("", "Every node has run: the leaves get their .grad now, all at once.", "");
    return;
  }
  var answer = names[following.run];
  if (key === following.run) {
    stop();
    if (!missed) { right += 1; }
    asked += 1;
    missed = false;
    show(at + 1);
    say("Right.", answer + " runs: its gradient is complete, and no waiting node was made later. " +
      right + " of " + asked + " at the first try.", "right");
    return;
  }
  if (key < data.leaves) {
    why = "is a leaf and runs nothing: it gets its .grad when the pass is over.";
  } else if (letter === "x" || letter === "d") {
    why = "has run already, and a node runs once.";
  } else if (letter === "w") {
    why = "has no gradient yet.";
  } else if (counts[at][key] > 0) {
    why = "has only a part of its gradient: " + counts[at][key] +
      (counts[at][key] === 1 ? " delivery is" : " deliveries are") + " still to come.";
  } else {
    why = "has its whole gradient, but another such node was made later and goes first.";
  }
  missed = true;
  elements[key].classList.add("miss");
  say("Not this one.", names[key] + " " + why + " Try again, or press Next.", "wrong");
}
document.documentElement.classList.add("js");
id("previous").addEventListener("click", function () { go(at - 1); });
id("next").addEventListener("click", function () { go(at + 1); });
id("play").addEventListener("click", function () { say("", "", ""); play(); });
id("slider").addEventListener("input", function () { go(Number(id("slider").value)); });
id("predict").addEventListener("click", function () {
  var on = document.body.classList.toggle("predict");
  id("predict").setAttribute("aria-pressed", String(on));
  right = asked = 0;
  go(at);
});
elements.forEach(function (element, key) {
  element.addEventListener("click", function () { guess(key); });
  element.addEventListener("keydown", function (event) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); guess(key); }
  });
});
document.addEventListener("keydown", function (event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target === id("slider")) { return; }
  var next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
  if (next !== undefined) { event.preventDefault(); go(next); }
});
show(0);
}());
"""
