"""What `tidelog demo` shows. Each module is one demonstration, or a part of the one with Spark."""
