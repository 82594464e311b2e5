"""How Sphinx turns the staged pages into a site; `lucid_mini/site.py` stages and calls it.

Nothing is fetched, neither when the pages are built nor when they are read: no notebook is run, and
MathJax is a file in `_static`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import lucid_mini

project = "lucid_mini"
author = "The lucid_mini authors"
version = release = lucid_mini.__version__
copyright = author  # no year: the same pages on every day

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "prose",  # docstrings as they are written here
    "api",  # the pages of the reference
    "inside",  # the drawings and the table of "How it works inside"
]
exclude_patterns = ["lucid_mini", "_generated"]  # quoted from
nitpicky = True
# Types in signatures: many are Python's or NumPy's, and some are of no use by themselves.
nitpick_ignore_regex = [("py:class", ".*")]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"

autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
maximum_signature_line_length = 76

html_theme = "sphinx_book_theme"
html_title = "lucid_mini"
html_favicon = "_static/mark.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_domain_indices = False
html_show_sphinx = False
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "logo": {
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
        "text": "lucid_mini",
        "alt_text": "lucid_mini",
    },
    "navbar_persistent": [],  # the search is in the sidebar already
    "footer_content_items": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
mathjax_path = "mathjax/tex-svg.js"
