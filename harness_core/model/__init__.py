"""Models: one protocol, one catalogue, one file per API dialect, and the offline demo model."""
