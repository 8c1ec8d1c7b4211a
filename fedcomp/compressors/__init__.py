"""The compressors: each maps a vector to payload bytes and back."""
