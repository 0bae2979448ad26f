"""What is kept beside the states of sessions in a Redis server; imports keys, scripts and what runs them."""
