"""From an accepted order to delivered mail: review, batches, print files, print partners, tracking."""
