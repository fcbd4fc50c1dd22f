"""Built-in tools, one file a family."""
