"""`gossamer init`, `acl`, `doctor`, `exporter` and `settings`: commands that set up servers and projects."""
