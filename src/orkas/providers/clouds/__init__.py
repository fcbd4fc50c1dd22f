"""What clouds want besides a key: an address that holds a place, and signatures."""
