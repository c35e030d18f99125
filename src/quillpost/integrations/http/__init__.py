"""Everything that we ask of other people's servers, through one guard."""
