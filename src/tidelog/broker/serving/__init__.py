"""From a frame to its handler and back, and the parts of a broker that handlers see."""
