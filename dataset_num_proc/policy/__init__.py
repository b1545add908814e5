"""The pure part: values in, values out. Nothing below this package may look at the machine."""
