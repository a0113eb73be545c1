"""How a run is shown: live, as tables, as figures, as a page.

One module per thing shown; the command line imports the one it needs, so that it starts at once.
"""
