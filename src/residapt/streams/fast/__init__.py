"""One forward pass for both streams, and target weights that are never kept in memory."""
