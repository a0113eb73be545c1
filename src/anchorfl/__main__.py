"""`python -m anchorfl` is the command."""

from anchorfl.cli import main

main()
