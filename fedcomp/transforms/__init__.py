"""Linear transforms applied before quantization."""
