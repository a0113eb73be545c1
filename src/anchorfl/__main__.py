"""`python -m anchorfl` is the command."""

from anchorfl.cli.main import main

main()
