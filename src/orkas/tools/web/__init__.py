"""What the web tools share: getting a page, reading it, and telling it as foreign text."""
