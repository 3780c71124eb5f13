"""What changed from earlier nights to tonight: an alarm that is rarely wrong."""
