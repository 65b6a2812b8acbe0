"""The command `annotated`, also as `python -m annotated`."""

import sys


def main() -> None:
    """Run a command; Ctrl-C while it is still being imported is no traceback."""
    try:
        from annotated.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
