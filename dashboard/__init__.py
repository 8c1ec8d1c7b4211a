"""The runs database (:mod:`dashboard.store`) and what shows it; imports neither Flower nor torch."""
