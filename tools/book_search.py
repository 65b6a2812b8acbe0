"""A Sphinx extension: the search knows numbers, such as 4000, 0.1 and section 3.2.1.

Sphinx's own cuts words at points and then leaves out what is all digits. Here points inside a
number belong to it, `37 000` and `37,000` are also `37000`, and the page of a section comes first,
as does a page that has the query for its title. Excerpts are sentences of the page's own text.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.search.en import SearchEnglish

BLOCK_END = re.compile(r"(</(?:td|th|p|li|div|button|small|option)>|<br ?/?>)(?=\S)")
# The same in Python and in JavaScript.
POINTED = r"\d+(?:\.\d+)+"
GROUPED = r"\b\d{1,3}(?:[ ,_\u00a0\u2009\u202f]\d{3})+\b"

IN_THE_BROWSER = rf"""
var splitQuery = (query) => query
  .replace(/{GROUPED}/g, (number) => number.replace(/\D/g, ""))
  .match(/{POINTED}|[\p{{Letter}}\p{{Number}}_]+/gu) ?? [];

const parseWithoutNumbers = Search._parseQuery;
Search._parseQuery = (query) => {{
  const parsed = parseWithoutNumbers(query), [, terms, , highlighted] = parsed;
  for (const number of splitQuery(query).filter((term) => /^\d+$/.test(term))) {{
    terms.add(number);
    if (number.length > 1) highlighted.add(number);
  }}
  localStorage.setItem("sphinx_highlight_terms", [...highlighted].join(" "));
  return parsed;
}};

Scorer.score = ([, title, , , score]) => {{
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const section = query.match(/(\d+(?:\.\d+)*)\s*$/)?.[1];
  const name = title.replace(/^[\d.]+ /, "").toLowerCase();
  const named = name === query.trim().toLowerCase();
  return score + (title.split(" ")[0] === section ? 100 : 0) + (named ? 50 : 0);
}};
"""


EXCERPTS = Path(__file__).with_name("search_excerpts.js").read_text(encoding="utf-8")


class NumberedEnglish(SearchEnglish):
    js_splitter_code = IN_THE_BROWSER + EXCERPTS

    def split(self, text):
        whole = (re.sub(r"\D", "", number) for number in re.findall(GROUPED, text))
        return [*re.findall(rf"{POINTED}|\w+", text), *whole]


def part_cells(app, doctree, docname):
    """Sphinx reads HTML outputs without their tags, which would join the words of two cells."""
    for node in doctree.findall(nodes.raw):
        if "html" in node.get("format", ""):
            node.children = [nodes.Text(BLOCK_END.sub(r"\1 ", node.astext()))]


def setup(app):
    app.add_search_language(NumberedEnglish)
    app.connect("doctree-resolved", part_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
