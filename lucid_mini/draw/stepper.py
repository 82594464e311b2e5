"""The stepper: a backward pass, one node at a time, with what waits, what flows and what goes.

The page has the graph once and toggles its states. Without scripts, in an untrusted notebook or on
paper, the filmstrip says the same: one small picture a step.
"""

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from lucid_mini.draw import style
from lucid_mini.draw.figure import Figure, PictureError
from lucid_mini.draw.film import LONGEST_NAME, Film, caption, flow, queue, watch
from lucid_mini.draw.graph import MOST_NODES
from lucid_mini.draw.stepper_art import plan, strip
from lucid_mini.draw.stepper_page import page

_LISTED = 200


def stepper(
    tensor: Any, gradient: Any = None, *, names: Mapping[str, Any] | None = None
) -> "StepperFigure":
    """The backward pass from `tensor`, node by node, as a page to step through.

    Runs the pass once with `retain_graph=True` and stops before any `.grad` is written, so the
    graph and every `.grad` are what they were; hooks on the way are called. What a node lets go of
    is what `backward()` would release. `names` maps names to tensors; `locals()` will do.

    Shape: `gradient` has the shape of `tensor`; None stands for 1 at a single element.
    Keeps: names and numbers, no tensor and no node.
    Raises: what `tensor.backward(gradient)` raises; TypeError for what is no tensor.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> lm.draw.stepper(x.exp(), names={"x": x})
        Backward from exp#1, step by step
        <BLANKLINE>
        step  node   gradients in → out  freed  saved  gradients  ready (to come)
           0  start  → exp#1 ()            0 B    8 B        8 B  exp#1 (0)
           1  exp#1  () → x ()             8 B    0 B        8 B
           2  end    .grad of x ()         0 B    0 B        8 B
        ...
    """
    return StepperFigure(watch(tensor, gradient, names))


class StepperFigure(Figure):
    """A page with a slider, a filmstrip where no script runs, and a line of text per step."""

    def __init__(self, film: Film) -> None:
        """Show what `film` has."""
        self._film = film
        self.title = film.title
        self.caption = caption(film)

    def film(self) -> Film:
        """What the picture shows, as plain data."""
        return self._film

    def text(self) -> str:
        """One line per step: the node, gradients in and out, bytes, the ready queue."""
        return "\n".join([self.title, "", *_table(self._film), "", *style.wrap(self.caption)])

    def svg(self) -> str:
        """The filmstrip.

        Raises: PictureError for more than MOST_NODES nodes.
        """
        self._refuse_large()
        return strip(self._film, plan(self._film), self.caption, self.text())

    def html(self) -> str:
        """The filmstrip as `<img>`, and the page in a frame of its own.

        An untrusted notebook drops the frame and the style, and shows the filmstrip. A trusted one
        shows the page, and hides the filmstrip that stands before it until it is printed.
        """
        pictures = base64.b64encode(self.svg().encode()).decode()
        inside = page(self._film, plan(self._film), self.caption, self.text(), embedded=True)
        return (
            f'<figure style="margin:0"><img alt="{escape(self.alt(), quote=True)}" '
            f'src="data:image/svg+xml;base64,{pictures}" style="max-width:100%"/>'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
            f'<iframe class="lucid-stepper" title="{escape(self.title, quote=True)}" '
            f'sandbox="allow-scripts" srcdoc="{escape(inside, quote=True)}" '
            f'style="width:100%;height:900px;border:0"></iframe>'
            f"<style>figure:has(+iframe.lucid-stepper){{display:none}}@media print{{"
            f"figure:has(+iframe.lucid-stepper){{display:block}}"
            f"iframe.lucid-stepper{{display:none}}}}</style>"
        )

    def _page(self) -> str:
        self._refuse_large()
        return page(self._film, plan(self._film), self.caption, self.text())

    def _refuse_large(self) -> None:
        nodes = len(self._film.nodes)
        if nodes > MOST_NODES:
            raise PictureError(
                f"A picture of {nodes} nodes cannot be read, and is not drawn. Step through a part "
                f"of it: pass a tensor further up, with a gradient of its shape."
            )


def _table(film: Film) -> list[str]:
    heads = ("freed", "saved", "gradients", "ready (to come)")
    rows = [("step", "node", "gradients in → out", *heads)]
    for at, frame in enumerate(film.frames[:_LISTED]):
        name = style.shorten(frame.node, LONGEST_NAME) or frame.kind
        moved = "→ " + flow(frame.flight, named=True)
        if frame.kind == "run":
            moved = f"{flow(frame.grads_in, named=False)} → {flow(frame.grads_out, named=True)}"
        elif frame.kind == "end":
            moved = f".grad of {flow(frame.flight, named=True)}"
        freed, saved, grads = map(style.format_bytes, (frame.freed, frame.saved, frame.gradients))
        rows.append((str(at), name, moved, freed, saved, grads, queue(frame)))
    lines = style.table(rows, "><<>>><", 130)
    hidden = len(film.frames) - _LISTED
    if hidden > 0:
        lines.append(f"and {style.count_of(hidden, 'more step')}")
    return lines
