"""Hold'em subgames as public trees: betting times boards times the hands that players may hold."""
