"""What the dashboard's pages cost beside a bare one, in an account that has mailed a million pieces."""
