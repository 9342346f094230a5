"""What the console, reports and `dnsteer status` show alike: what needs attention, its drawing, numbers and words."""
