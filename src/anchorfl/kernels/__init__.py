"""What a GPU does in one kernel of our own; imported only where Triton and a GPU are."""
