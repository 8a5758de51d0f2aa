"""Detecting drones: UAV-200, and a stand-in for it from drawn drones and real photographs."""
