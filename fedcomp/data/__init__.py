"""Real data sets: read from the forms they are published in, kept prepared, dealt out to clients."""
