"""``python -m residapt``."""

from residapt.cli import main

if __name__ == "__main__":
    main()
