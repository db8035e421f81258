"""The native engine: asyncio and aiohttp on the courier, running site files."""
