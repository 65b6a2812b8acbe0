"""Fills in the public address: launch buttons, and first cells that install from the repository.

    publish.py https://github.com/OWNER/NAME COMMIT

The publish workflow runs it on its own checkout, builds the site from that, and pushes it as the
branch that the buttons open. In the tree the address stays empty: a copy has another one.
"""

import re
import sys
from pathlib import Path

from pages import INSTALL_CELL

BRANCH = "published"


def fill(root: Path, address: str, commit: str) -> None:
    """Writes the address into `_config.yml` and into the first cell of each page under `root`.

    Raises ValueError, before anything is written, where one of the places is not as expected.
    """
    if not re.fullmatch(r"https?://[\w.:-]+/[\w.-]+/[\w.-]+", address):
        raise ValueError(f"address {address!r}: expected https://github.com/OWNER/NAME")
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise ValueError(f"commit {commit!r}: expected its 40 hexadecimal digits")
    local = INSTALL_CELL.splitlines()[-1]
    public = local.removesuffix("..") + f"{address}/archive/{commit}.zip"
    owner, name = address.rsplit("/", 2)[1:]
    buttons = {
        '\n  url: ""\n': f"\n  url: {address}\n",
        "\n  branch: main\n": f"\n  branch: {BRANCH}\n",
        '\n  baseurl: ""\n': f"\n  baseurl: https://{owner.lower()}.github.io/{name}\n",
    }
    changes = {root / "_config.yml": buttons}
    for page in (root / "book").glob("*.ipynb"):
        changes[page] = {f'"{local}"\n': f'"{public}"\n'}
    filled = {}
    for path, lines in changes.items():
        text = path.read_text(encoding="utf-8")
        for old, new in lines.items():
            if text.count(old) != 1:
                raise ValueError(f"{path}: {old.strip()!r} stands {text.count(old)} times")
            text = text.replace(old, new)
        filled[path] = text
    for path, text in filled.items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    try:
        fill(Path(__file__).resolve().parents[1], *sys.argv[1:])
    except (TypeError, ValueError) as error:
        print(f"publish.py: {error}", file=sys.stderr)
        sys.exit(2)
