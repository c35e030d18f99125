"""People who sign in: passwords, second factors, sessions, invitations."""
