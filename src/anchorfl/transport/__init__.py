"""How tasks and uploads travel between real sites and a server: as files, or on Flower."""
