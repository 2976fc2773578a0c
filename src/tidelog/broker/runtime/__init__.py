"""What work runs on: threads beside the loop, slices of its turns, timers, the cycle collector."""
