"""What takes the place of the lesson’s rules: fitted lines, split ratios, a map of winners, and its own contradictions."""
