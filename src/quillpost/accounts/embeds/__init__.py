"""The composer embedded in other sites."""
