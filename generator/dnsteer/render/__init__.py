"""From a plan to text, by templates."""
