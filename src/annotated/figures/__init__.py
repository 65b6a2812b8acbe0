"""Figures 1-5 and the book's own: functions from arrays or models to Matplotlib figures."""
