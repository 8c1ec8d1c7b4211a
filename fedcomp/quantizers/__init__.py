"""Maps from real coordinates to small integers and back."""
