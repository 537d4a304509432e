"""Training of SpecHop's two small models: the planner (a LoRA) and the extractive reader."""
