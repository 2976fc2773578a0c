"""Records whose delivery failed, kept on disk until a broker has them."""
