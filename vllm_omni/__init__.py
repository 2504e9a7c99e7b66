"""The in-tree omni runners: thin classes over vLLM's V1 and V2 model runners. Importing this changes nothing."""
