"""Taking back what a turn did to files, by tools and by shell commands alike."""
