"""Lambda foreseen, watched and explained: from formulas and records, without training."""
