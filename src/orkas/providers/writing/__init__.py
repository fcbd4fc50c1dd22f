"""From a history to what a model may see of it, whatever the dialect."""
