"""Real sites: keys, certificates, archives, profiles, and checks that say in plain words what is wrong."""
