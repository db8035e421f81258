"""Pages of rows: CSV and TSV, also packed."""
