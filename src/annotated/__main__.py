"""`python -m annotated`: the same as the command `annotated`."""

from annotated.cli import main

if __name__ == "__main__":
    main()
