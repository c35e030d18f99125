"""Where apps ask for leave to act for an account, and get their tokens: OAuth 2.0 on Authlib's core."""
