"""What a send costs in processor time, against what nobody could do without."""
