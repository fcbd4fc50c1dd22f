"""The history of a conversation: in memory, on disk, and the shelf of all of them."""
