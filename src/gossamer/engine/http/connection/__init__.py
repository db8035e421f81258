"""Connections: DNS, TLS, proxies and aiohttp's connector."""
