"""What every part uses and what knows nothing of mail: database, jobs, events, encryption, errors."""
