"""``python -m orkas`` is the command ``orkas``."""

import sys

from orkas.product.cli import main

if __name__ == "__main__":
    sys.exit(main())
