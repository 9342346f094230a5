"""From a plan to text, through the templates."""
