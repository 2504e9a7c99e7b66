"""One findings model, and one module per output format."""
