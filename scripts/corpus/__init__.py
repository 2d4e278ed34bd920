"""The conversations of the corpus: what a client does in each, as data, and the driver."""
