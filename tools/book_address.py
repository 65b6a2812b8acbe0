"""A Sphinx extension: what depends on the public address of the repository.

`repository.url` in _config.yml is the one place for the address. The theme fails on launch buttons
without one, so an empty address takes every button away that would need it. The directive
`{clone}` says how to get the repository, or, without an address, that its commands run in a clone.
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

NEED_AN_ADDRESS = ("launch_buttons", "use_repository_button", "use_issues_button")


class Clone(SphinxDirective):
    """The commands that fetch the repository, if its address is known; then the way on."""

    def run(self):
        address = self.config.html_theme_options.get("repository_url")
        if not address:
            return [nodes.paragraph("", "In a clone of this repository:")]
        name = address.rstrip("/").rpartition("/")[2].removesuffix(".git")
        commands = f"git clone {address}\ncd {name}"
        return [
            nodes.literal_block(commands, commands, language="bash"),
            nodes.paragraph("", "Then, in this clone:"),
        ]


def drop_buttons(app, config):
    if not config.html_theme_options.get("repository_url"):
        for option in NEED_AN_ADDRESS:
            config.html_theme_options.pop(option, None)


def setup(app):
    app.add_directive("clone", Clone)
    app.connect("config-inited", drop_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
