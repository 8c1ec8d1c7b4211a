"""What runs at a client: local training and the encoding of its update."""
