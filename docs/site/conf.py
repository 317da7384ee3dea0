"""Configuration of the site of the documents: ``make docs`` writes it to ``build/docs``.

The documents are Markdown that GitHub shows too, so directives are rare: ``pages.py`` adds what only the site has,
such as the navigation and the pages that are generated from code.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "server")]

from covalt_git import __version__  # noqa: E402 - found by the path above
from docs.site.redirects import REDIRECTS  # noqa: E402

project = "covalt-git"
language = "en"
version = release = __version__
copyright = "the authors of covalt-git"  # noqa: A001 - Sphinx's name
html_title = f"covalt-git {__version__}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_reredirects",
    "docs.site.pages",
]
exclude_patterns = ["site/**"]
redirects = REDIRECTS

# Anchors as on GitHub, of all levels of headings.
myst_heading_anchors = 6
# Two hyphens of an option stay two hyphens, also outside of code.
smartquotes = False
# Syntax that GitHub would show as it is written.
myst_disable_syntax = ["myst_line_comment", "myst_block_break", "myst_role", "myst_target"]
highlight_language = "text"
# Blocks of documents may leave out a part of their text with "...".
suppress_warnings = ["misc.highlighting_failure"]

nitpicky = True
# No inventory of another project is loaded, as the build has no network: only our own names are links.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!covalt).*|covalt_toolset\.(elicitation\.Content|decorator\._Function)")
]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_favicon = "../../server/covalt_server/static/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("tables.js", {"defer": "defer"})]
html_search_scorer = str(Path(__file__).with_name("search.js"))
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_baseurl = ""
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_copy_empty_lines = False
copybutton_line_continuation_character = "\\"
