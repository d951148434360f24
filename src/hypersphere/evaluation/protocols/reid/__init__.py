"""Re-identification: Market-1501 and DukeMTMC."""
