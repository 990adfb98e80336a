"""Matches with other programs of poker: the dealer and the client of the ACPC's protocol."""
