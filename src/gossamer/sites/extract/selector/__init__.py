"""Selectors: CSS, XPath, regular expressions, JMESPath."""
