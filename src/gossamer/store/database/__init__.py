"""The databases: SQLite, PostgreSQL, MariaDB and MySQL."""
