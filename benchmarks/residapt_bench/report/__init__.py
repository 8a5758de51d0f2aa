"""Tables, figures and comparisons from records."""
