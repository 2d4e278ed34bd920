"""Tools: what one is, the registry, the pipeline, and one file per built-in tool."""
