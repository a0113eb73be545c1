"""`python -m benchmarks.tables`."""

import sys

from benchmarks.tables.pages import main

main(*sys.argv[1:])
