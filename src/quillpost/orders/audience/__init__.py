"""Who is mailed, who is not and why, and what that costs."""
