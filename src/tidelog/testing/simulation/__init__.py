"""A deterministic simulation of a cluster: real brokers and clients, simulated network, metadata, disks and clocks."""

from tidelog.testing.simulation.simulation import Simulation, SimulationFailed

__all__ = ["Simulation", "SimulationFailed"]
