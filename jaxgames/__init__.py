"""Games as pure JAX functions: rules, the game contract, the registry and adapters."""
