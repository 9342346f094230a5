"""What the console, reports and `dnsteer status` share: snapshots of a switch, items of attention, drawing, wording."""
