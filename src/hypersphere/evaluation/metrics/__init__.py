"""Metrics of verification, identification, retrieval and embeddings."""
