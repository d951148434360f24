"""Pair lists such as LFW's."""
