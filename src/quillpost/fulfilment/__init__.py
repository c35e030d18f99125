"""From the end of the review to the mailbox: pool, compose, print, mail. Each step is a job."""
