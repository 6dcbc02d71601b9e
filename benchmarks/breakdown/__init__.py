"""HolisticGNN's Figures 3a and 19: where the time of inference goes, on the host and here."""
