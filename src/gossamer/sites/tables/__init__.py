"""What becomes of the records of a site: tables, rows that come in parts, and pages that rows ask for again."""
