"""Solvers: public trees, counterfactual regret minimisation, best response, linear programs."""
