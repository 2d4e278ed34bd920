"""The command line of acp-harness."""
