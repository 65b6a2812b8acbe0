"""The page of the abstract says "no page yet" only where there is none, and whom to cite."""

import re

import yaml
from pages.book import ROOT, Book

from annotated import paper

BOOK = Book()
PAGE = BOOK.page("book/00-abstract")
TEXT = "\n".join(text for cell in PAGE.cells for text in cell.texts)


def test_no_page_yet_is_said_of_sections_without_a_page():
    named = re.findall(r"§([\d.]+): no page yet", TEXT)
    there = [n for n in named if f"book/{paper.SECTIONS[n].stem}" in BOOK.toc]
    assert there == [], "link these sections on the page of the abstract, and run it"


def test_every_link_of_its_tables_leads_to_a_page():
    links = re.findall(r"\]\(([\w-]+)\.ipynb\)", TEXT)
    assert len(links) >= 8
    assert {f"book/{stem}" for stem in links} <= BOOK.toc


def test_the_book_is_cited_as_its_citation_file_has_it():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (author,) = told["authors"]
    for value in (author["name"], told["title"], told["version"]):
        assert f"{{{value}}}" in TEXT
    (listed,) = told["references"]
    names = [f"{a['given-names']} {a['family-names']}" for a in listed["authors"]]
    assert names == list(paper.AUTHORS)
    assert f"pages     = {{{listed['start']}--{listed['end']}}}" in TEXT
