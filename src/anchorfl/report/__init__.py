"""How a run is shown: live, as tables, as pictures."""
