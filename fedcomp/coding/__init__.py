"""Maps from small integers to bytes and back, without loss."""
