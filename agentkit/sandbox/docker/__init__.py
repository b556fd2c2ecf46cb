"""What the Docker engine is made of; ``docker_engine.py`` is the way in."""
