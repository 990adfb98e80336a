"""jaxgames/beliefs."""
