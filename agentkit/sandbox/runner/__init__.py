"""The way into an instance from the owner's side: the runner's guest, and the one for images that can't host it."""
