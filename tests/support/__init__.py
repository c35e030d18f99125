"""What tests share: factories, fake servers, readers of what came out."""
