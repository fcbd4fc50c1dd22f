"""From the bytes of a reply to whole events and calls, whatever the dialect."""
