"""The context window: how full it is, and what is done before it overflows."""
