"""A Sphinx extension of ten lines: without a public address there is nothing to launch or to link.

`repository.url` in _config.yml is the one place for the address. The theme fails on launch buttons
without one, so an empty address takes every button away that would need it.
"""

NEED_AN_ADDRESS = ("launch_buttons", "use_repository_button", "use_issues_button")


def drop_buttons(app, config):
    if not config.html_theme_options.get("repository_url"):
        for option in NEED_AN_ADDRESS:
            config.html_theme_options.pop(option, None)


def setup(app):
    app.connect("config-inited", drop_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
