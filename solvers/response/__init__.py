"""Best responses to agents whose policies are known."""
