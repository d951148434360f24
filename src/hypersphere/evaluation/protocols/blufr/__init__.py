"""BLUFR: verification and open-set identification on LFW."""
