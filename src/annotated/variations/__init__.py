"""§6.2 and before it: recipes with something changed, all measured the same way."""
