"""Sentences, tables and plain values of results."""
