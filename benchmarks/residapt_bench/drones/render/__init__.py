"""A stand-in for UAV-200 from real photographs: drawn drones as source, photographed ones as target."""
