"""Figure: what every function of `lm.draw` returns.

A picture in Jupyter, a text table everywhere else.
"""

import base64
from html import escape
from pathlib import Path
from typing import Any


class Figure:
    """A picture and its text twin: the same facts twice.

    `repr` is the text twin: deterministic, what a terminal shows, a test compares, a screen reader
    reads. Subclasses define `text()`, `svg()` and, where they can, `png()` and `dot()`.

    Jupyter is given the SVG inside `<img>`: JupyterLab hides a bare SVG output of a notebook that
    is not trusted, and every fresh clone is untrusted.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> figure = lm.draw.graph(x.exp())
        >>> print(figure.alt())
        Graph of exp#1. 1 node, 1 leaf; saved: 16 B in 1 buffer.
    """

    title: str = ""
    #: One line under the picture, with the numbers that matter.
    caption: str = ""
    #: Whether the picture itself shows that line, so that the page need not say it again.
    caption_is_drawn: bool = False

    def text(self) -> str:
        """The facts of the picture as a table of plain text."""
        raise NotImplementedError

    def svg(self) -> str:
        """The picture as SVG, with `<title>` and `<desc>`.

        Raises: PictureError where a package or program that draws is missing.
        """
        raise NotImplementedError

    def png(self) -> bytes:
        """The picture as PNG.

        Raises: PictureError where it cannot be made.
        """
        raise PictureError(
            f"{type(self).__name__} cannot be drawn as PNG; save it as .svg or .html"
        )

    def dot(self) -> str:
        """The picture as DOT source.

        Raises: PictureError for what is no graph.
        """
        raise PictureError(f"{type(self).__name__} is no graph and has no DOT source")

    def html(self) -> str:
        """The picture as one HTML element that shows in an untrusted notebook, too."""
        data = base64.b64encode(self.svg().encode()).decode()
        return (
            f'<figure style="margin:0"><img alt="{escape(self.alt(), quote=True)}" '
            f'src="data:image/svg+xml;base64,{data}" style="max-width:100%"/>'
            f"{self._figcaption()}</figure>"
        )

    def _figcaption(self) -> str:
        return "" if self.caption_is_drawn else f"<figcaption>{escape(self.caption)}</figcaption>"

    def alt(self) -> str:
        """The alternative text: title and caption."""
        return f"{self.title}. {self.caption}".strip(". ") + "."

    def save(self, path: str | Path) -> Path:
        """Write the figure to `path`; the ending says how: .svg .png .html .dot .txt.

        Raises: ValueError for another ending, PictureError where the picture cannot be made.

        Example:
            >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
            >>> lm.draw.graph(x.exp()).save("graph.txt").name
            'graph.txt'
        """
        path = Path(path)
        writers: dict[str, Any] = {
            ".svg": self.svg,
            ".png": self.png,
            ".html": self._page,
            ".dot": self.dot,
            ".txt": lambda: self.text() + "\n",
        }
        writer = writers.get(path.suffix.lower())
        if writer is None:
            raise ValueError(
                f"cannot save a figure as '{path.name}': use one of {' '.join(writers)}"
            )
        content = writer()
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
        return path

    def _page(self) -> str:
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>{escape(self.title)}</title></head><body>{self.html()}<pre>{escape(self.text())}</pre></body></html>\n"
        )

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": self.text()}
        try:
            bundle["text/html"] = self.html()
        except PictureError as error:
            # The text stays what it is everywhere; how to get the picture is said beside it.
            bundle["text/html"] = f"<pre>{escape(self.text())}\n({escape(str(error))})</pre>"
        return bundle


class PictureError(RuntimeError):
    """A picture cannot be made here; the message says what to install. The text twin always can.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     y = x.exp()
        >>> lm.draw.timeline(t).dot()
        Traceback (most recent call last):
            ...
        lucid_mini.draw.figure.PictureError: TimelineFigure is no graph and has no DOT
          source
    """
