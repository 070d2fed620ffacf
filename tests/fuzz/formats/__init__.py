"""A module per format: `seeds()`, `WORDS`, and `play(data)`, which calls nftop with one input."""
