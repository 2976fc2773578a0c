"""This broker among others, or alone: where its metadata comes from, who decides, and how a change is asked for."""
