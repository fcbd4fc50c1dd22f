"""The harness floor: one request becomes a reliable sequence of actions."""
