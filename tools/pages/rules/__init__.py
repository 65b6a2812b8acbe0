"""Every rule that a page must keep, by name."""

from pages.rules import code, figures, frame, prose, size, stored  # noqa: F401  (they register their rules)
from pages.rules.registry import BOOK_RULES, RULES, Finding, check, described

__all__ = ["BOOK_RULES", "RULES", "Finding", "check", "described"]
