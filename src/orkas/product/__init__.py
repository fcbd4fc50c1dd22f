"""The product floor: what a person sees."""
