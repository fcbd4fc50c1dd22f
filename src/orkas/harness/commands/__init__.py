"""The shell command line: its grammar, what its words come to, and which commands the block list judges."""
