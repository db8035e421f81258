"""`gossamer export`, `import` and `migrate`: crawls and projects from and to other places."""
