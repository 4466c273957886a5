"""Overside measures, decides and runs data-processing offload between a host and its DPU."""
