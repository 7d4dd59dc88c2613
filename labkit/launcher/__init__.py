"""What lab.py does. Standard library only: it runs before there is an environment."""
