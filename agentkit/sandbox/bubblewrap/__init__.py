"""What the bubblewrap engine is made of; ``bubblewrap_engine.py`` is the way in."""
