"""Which coordinates get how many bits: models of where a vector's energy is, pools of like energy, and their rates."""
