"""A Sphinx extension: what a page loads, and what is said of it elsewhere.

- The theme's script of icons (1.5 MB) and the styles of its 2000 glyphs (a fifth of its style
  sheet) are left out: `book/_static/frame.css` draws those that pages have. MathJax is
  loaded where there is a formula, the search index where there is a search. Scripts wait for the
  text.
- A page's description and card (`og:`) are made of its title and question; `canonical` is Sphinx's,
  as soon as the address is known (`html_baseurl`).
- Sections of the paper that have no page yet are named in the sidebar.
"""

import re
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
FONT_AWESOME = re.compile(r"\s*<!-- So that users can add custom icons -->\s*"
                          r"<script[^>]*fontawesome\.js[^>]*></script>")
# Rules that say nothing but which glyph an icon is.
GLYPHS = re.compile(r'(?<=\})(?:\.fa-[\w-]+(?:::?(?:before|after))?,?)+'
                    r'\{(?:(?:--fa|--fa--fa|content):"[^"]*";?)+\}')
STYLES = Path("_static", "styles", "pydata-sphinx-theme.css")
# Inline scripts after it need these names at once.
AT_ONCE = ("documentation_options.js",)
PROMISE = (
    "The paper's Transformer, executed: every figure is drawn from what tested code computed, "
    "and one small trained model is taken apart word by word."
)
CARD = "_static/card.png"  # 1200 × 630, made by tools/mark.py
CARD_SHOWS = (
    "Seven strips, the memory of three hundred and forty-two; one is orange. Under them the German "
    "word, one part of it exchanged."
)
IN_WRITING = ("4 Why Self-Attention", "6 Results")


def without_font_awesome(head):
    return FONT_AWESOME.sub("", head)


def question(doctree):
    """The line in italics under a page's title, or None."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        if "minutes" not in paragraph["classes"]:
            first = paragraph.children[:1]
            return first[0].astext() if first and isinstance(first[0], nodes.emphasis) else None
    return None


def card(app, pagename, title, doctree, pathto):
    """The page's `name → content` for search engines and for whoever shares it."""
    asked = question(doctree)
    base = (app.config.html_baseurl or "").rstrip("/")
    image = f"{base}/{CARD}" if base else pathto(CARD, 1)
    yield "description", f"{asked} {PROMISE}" if asked else PROMISE
    yield "og:type", "article"
    yield "og:site_name", app.config.html_title
    yield "og:title", title
    yield "og:description", asked or PROMISE
    yield "og:image", image
    yield "og:image:width", "1200"
    yield "og:image:height", "630"
    yield "og:image:alt", CARD_SHOWS
    if base:
        yield "og:url", f"{base}/{pagename}.html"


def scripts(files, pagename, body):
    """What of these a page loads, and when."""
    for script in files:
        name = str(getattr(script, "filename", script) or "")
        if "mathjax/" in name and 'class="math' not in body:
            continue
        # The search page has scripts in its text that need the others. Pages share these objects.
        script.attributes.pop("defer", None)
        if name and not name.endswith(AT_ONCE) and pagename != "search":
            script.attributes["defer"] = "defer"
        yield script


def tell(app, pagename, templatename, context, doctree):
    title = re.sub(r"<[^>]+>", "", context.get("title", "")) or app.config.html_title
    context["without_font_awesome"] = without_font_awesome
    context["page_card"] = list(card(app, pagename, title, doctree, context["pathto"]))
    titles = [node.astext() for node in app.env.titles.values()]
    context["in_writing"] = [
        section for section in IN_WRITING
        if not any(title.startswith(section.split()[0] + " ") for title in titles)
    ]


def lighten(app, pagename, templatename, context, doctree):
    files = context.get("script_files", ())
    context["script_files"] = list(scripts(files, pagename, context.get("body", "")))


def without_glyphs(app, exception):
    styles = Path(app.outdir) / STYLES
    if exception is None and styles.is_file():
        text = styles.read_text(encoding="utf-8")
        styles.write_text(GLYPHS.sub("", text), encoding="utf-8")


def setup(app):
    app.config.templates_path.append(str(HERE / "templates"))
    # Before the theme looks which parts of its sidebar are empty, and after all have added scripts.
    app.connect("html-page-context", tell, priority=400)
    app.connect("html-page-context", lighten, priority=900)
    app.connect("build-finished", without_glyphs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
